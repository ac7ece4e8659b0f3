"""Read what stands in an ONNX file, without loading it."""

import pathlib
from collections.abc import Iterator

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

STANDARD = ("", "ai.onnx")
FLOATS = {"FLOAT": "float32", "DOUBLE": "float64", "FLOAT16": "float16", "BFLOAT16": "bfloat16"}
QUANTIZED = ("INT8", "UINT8", "INT4", "UINT4", "FLOAT8")


def read(path: pathlib.Path) -> onnx.ModelProto:
    """Parse a file; weights that stand in other files are not read.

    Args:
        path: an .onnx file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is damaged.
    """
    try:
        model = onnx.ModelProto.FromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not model.graph.output:
        raise ValueError(f"{path} is damaged: it holds no ONNX graph")
    return model


def operations(model: onnx.ModelProto) -> dict[str, list[str]]:
    """Operation -> its nodes, as "domain.Op" where the domain is not ONNX's own."""
    found: dict[str, list[str]] = {}
    for graph in graphs(model.graph):
        for node in graph.node:
            name = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
            found.setdefault(name, []).append(node.name)
    return found


def precisions(model: onnx.ModelProto) -> set[str]:
    """What the weights are stored in: NumPy's names, and "int8" for quantized ones."""
    kinds = {tensor.data_type for graph in graphs(model.graph) for tensor in graph.initializer}
    names = map(onnx.TensorProto.DataType.Name, kinds)
    return {"int8" if name.startswith(QUANTIZED) else FLOATS.get(name, "") for name in names}


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph, and the bodies of its loops and branches."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)
