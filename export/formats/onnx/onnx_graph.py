"""Read the operations and weight types of an ONNX file, without loading it into a runtime."""

import pathlib
from collections.abc import Iterator

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

STANDARD = ("", "ai.onnx")
FLOATS = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}
QUANTIZED_TYPES = ("INT8", "UINT8", "INT4", "UINT4", "FLOAT8")


def read(path: pathlib.Path) -> onnx.ModelProto:
    """Parse an .onnx file, without weights that are stored in separate files.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is damaged.
    """
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not model.graph.output:
        raise ValueError(f"{path} is damaged: it has no ONNX graph")
    return model


def operations(model: onnx.ModelProto) -> dict[str, list[str]]:
    """Return the names of all nodes by operation, such as {"MatMul": ["dense/MatMul"]}.

    An operation of a domain other than ONNX's is named "domain.Op".
    """
    found: dict[str, list[str]] = {}
    for graph in graphs(model.graph):
        for node in graph.node:
            name = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
            found.setdefault(name, []).append(node.name)
    return found


def precisions(model: onnx.ModelProto) -> set[str]:
    """Return the dtypes of a file's weights, such as {"float32"}; "int8" for quantized weights."""
    kinds = {tensor.data_type for graph in graphs(model.graph) for tensor in graph.initializer}
    names = map(onnx.TensorProto.DataType.Name, kinds)
    return {"int8" if name.startswith(QUANTIZED_TYPES) else FLOATS.get(name, "") for name in names}


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield an ONNX graph, and the graphs of its loops and branches."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)
