"""Read what stands in a SavedModel, without loading it.

All of it raises FileNotFoundError where the folder has no saved_model.pb, and ValueError where that
cannot be parsed.
"""

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.keras_internals import has_cpu_kernel
from keras_norm_verify import resolved

# Calls back into the Python process that wrote the model.
PYTHON_OPS = frozenset(["EagerPyFunc", "PyFunc", "PyFuncStateless"])


def saved_model_signature(
    path: str | os.PathLike[str], name: str = SERVING_DEFAULT
) -> tuple[dict[str, tf.TensorSpec], dict[str, tf.TensorSpec]]:
    """Read the inputs and outputs of a signature of a SavedModel.

    Args:
        path: the SavedModel's folder.
        name: of the signature.

    Returns:
        (inputs, outputs), each name -> its shape and type, and its name in the graph,
        "operation:index".

    Raises:
        ValueError: there is no such signature.
    """
    signatures = _read(path).signature_def
    if name not in signatures:
        known = ", ".join(saved_model_signatures(path))
        raise ValueError(f"{path} has no signature {name}; it has: {known or 'none'}")
    inputs, outputs = (
        {
            known: tf.TensorSpec(entry.tensor_shape, entry.dtype, entry.name)
            for known, entry in sorted(entries.items())
        }
        for entries in (signatures[name].inputs, signatures[name].outputs)
    )
    return inputs, outputs


def write_numbered(
    path: str | os.PathLike[str], name: str, folder: pathlib.Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Write a SavedModel that has one signature of another, with its inputs and outputs numbered.

    There are readers that see `serving_default` only, and that cannot tell an input from an output
    of the same name, which states have. The weights are linked, not copied.

    Args:
        path: the SavedModel's folder.
        name: of the signature, which becomes `serving_default`.
        folder: where to, an empty folder.

    Returns:
        (inputs, outputs), each name -> its name in the new signature.

    Raises:
        ValueError: there is no such signature.
    """
    specs, answers = saved_model_signature(path, name)
    inputs = {known: f"input_{i}" for i, known in enumerate(specs)}
    outputs = {known: f"output_{i}" for i, known in enumerate(answers)}
    graph = _read(path)
    numbered = meta_graph_pb2.SignatureDef()
    for known, new in inputs.items():
        numbered.inputs[new].CopyFrom(graph.signature_def[name].inputs[known])
    for known, new in outputs.items():
        numbered.outputs[new].CopyFrom(graph.signature_def[name].outputs[known])
    for known in saved_model_signatures(path):
        del graph.signature_def[known]
    graph.signature_def[SERVING_DEFAULT].CopyFrom(numbered)
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[graph])
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    (folder / "variables").symlink_to((pathlib.Path(path) / "variables").resolve())
    return inputs, outputs


def saved_model_signatures(path: str | os.PathLike[str]) -> list[str]:
    """Names of the signatures of a SavedModel.

    Args:
        path: the SavedModel's folder.
    """
    return sorted(name for name in _read(path).signature_def if not name.startswith("__"))


def saved_model_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Find the SavedModel that stands at `path`: itself, or the highest version in it.

    Args:
        path: a SavedModel's folder, or a folder of numbered versions.

    Raises:
        ValueError: it is neither.
    """
    folder = resolved(pathlib.Path(path))
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            f"{folder} is no SavedModel (it holds neither saved_model.pb nor numbered versions) "
            "and no TFLite file"
        )
    return folder


def saved_model_ops(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """List the operations in a SavedModel, those inside its functions and loops included.

    Args:
        path: the SavedModel's folder.

    Returns:
        Operation, such as "MatMul" -> names of the nodes that run it; a node's name begins with
        the Keras layers it stands in.
    """
    ops: dict[str, list[str]] = {}
    for node in _nodes(_read(path)):
        ops.setdefault(node.op, []).append(node.name)
    return ops


def unservable_ops(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """List what a TensorFlow server may lack: XLA, `jit_compile`d calls, custom ops, Python, a GPU.

    Args:
        path: the SavedModel's folder.

    Returns:
        Operation, or "jit_compile", -> names of its nodes or functions; empty when all is well.
    """
    # Some of XLA's ops have kernels for CPUs in part of TensorFlow's builds.
    found = {
        op: nodes
        for op, nodes in saved_model_ops(path).items()
        if op.startswith("Xla") or op in PYTHON_OPS or not has_cpu_kernel(op)
    }
    graph = _read(path)
    compiled = [n.name for n in _nodes(graph) if _must_compile(n)]
    compiled += [f.signature.name for f in graph.graph_def.library.function if _must_compile(f)]
    return found | ({"jit_compile": compiled} if compiled else {})


def multiplies_integers(path: str | os.PathLike[str]) -> bool:
    """Whether a product in a SavedModel is one of integers, as `keras.Model.quantize` makes them.

    Args:
        path: the SavedModel's folder.
    """
    integers = {tf.int8.as_datatype_enum, tf.int32.as_datatype_enum}
    products = (node for node in _nodes(_read(path)) if "MatMul" in node.op)
    return any(attribute.type in integers for node in products for attribute in node.attr.values())


def _read(path: str | os.PathLike[str]) -> Any:
    """Parse saved_model.pb and return its one graph, the one tagged "serve"."""
    file = pathlib.Path(path) / "saved_model.pb"
    saved = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString(file.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{file} is not a SavedModel, or is damaged") from error
    for graph in saved.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return graph
    raise ValueError(f"{file} has no graph for serving (tag serve)")


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def _must_compile(item: Any) -> bool:
    return "_XlaMustCompile" in item.attr and item.attr["_XlaMustCompile"].b
