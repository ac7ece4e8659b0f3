"""Write a Keras model as a SavedModel for TensorFlow Serving, and read what stands in one."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.protobuf import saved_model_pb2

from keras_norm.export import signature
from keras_norm.export.errors import UnsupportedOpError
from keras_norm.export.staging import staged
from keras_norm.walk import named_layers

SIGNATURE = "serving_default"

# Calls back into the Python process that wrote the model.
PYTHON_OPS = frozenset(["EagerPyFunc", "PyFunc", "PyFuncStateless"])


def export_saved_model(
    model: keras.Model, path: str | os.PathLike[str], *, version: int | None = None
) -> pathlib.Path:
    """Write `model` as a SavedModel with one signature, `serving_default`, in inference mode.

    Inputs and outputs have names (`keras_norm.export.signature`); batch, time and every other size
    that the model leaves open stay open. Nothing in it needs Keras, this package, XLA or a custom
    op. The folder appears in one step: a server that polls it never sees half a model.

    Args:
        model: a functional or a built sequential model.
        path: folder to write; missing parent folders are made.
        version: write `path/<version>/`, the layout that TensorFlow Serving polls; at least 1.

    Returns:
        The folder written: `path`, or `path/<version>`.

    Raises:
        FileExistsError: the folder exists; it is never overwritten.
        UnsupportedOpError: a layer brings an XLA op, a `jit_compile`d function or a custom op,
            which a server may not have.
        ValueError: the model has no fixed inputs, or a stateful layer, whose state all requests to
            a server would share; `version` is no positive integer; `path` ends like a file.

    Example:
    ```python
    export_saved_model(model, "served/digits", version=1)  # served/digits/1/saved_model.pb
    ```
    """
    signature.input_specs(model)
    refuse_stateful(model)
    target = _target(path, version)
    with staged(target) as folder:
        write_saved_model(model, folder)
        _refuse_unservable(folder)
    return target


def write_saved_model(model: keras.Model, folder: pathlib.Path) -> None:
    """Trace `model` in inference mode with named inputs and outputs, and write it to `folder`."""
    specs = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name=name)
        for name, spec in signature.input_specs(model).items()
    }

    def serve(inputs: dict[str, Any]) -> dict[str, Any]:
        outputs = signature.call(model, inputs, training=False)
        # An input returned as it is, or one tensor under two names, needs a tensor of its own.
        return {name: tf.identity(tensor, name=name) for name, tensor in outputs.items()}

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(SIGNATURE, serve, input_signature=[specs])
    archive.write_out(str(folder), verbose=False)


def refuse_stateful(model: keras.Model) -> None:
    """Raise ValueError if a layer of the model is stateful."""
    for path, layer in named_layers(model):
        if getattr(layer, "stateful", False):
            raise ValueError(
                f'layer "{path}" ({type(layer).__name__}) is stateful: all requests to a server '
                "would share its state. Build it with stateful=False; to carry state from call to "
                "call make it an input (initial_state) and an output (return_state)"
            )


@dataclasses.dataclass(frozen=True)
class GraphTensor:
    """One input or output of a SavedModel's signature.

    Attributes:
        tensor: its name in the graph, "operation:index".
        shape: sizes, None where they are decided by the data; None when nothing is known.
        dtype: name of the type, such as "float32".
    """

    tensor: str
    shape: tuple[int | None, ...] | None
    dtype: str


def saved_model_signature(
    path: str | os.PathLike[str],
) -> tuple[dict[str, GraphTensor], dict[str, GraphTensor]]:
    """Read the inputs and outputs of the signature `serving_default` of a SavedModel.

    Args:
        path: the SavedModel's folder.

    Returns:
        (inputs, outputs), each name -> `GraphTensor`.

    Raises:
        FileNotFoundError: no saved_model.pb in the folder.
        ValueError: saved_model.pb cannot be parsed, or has no such signature.
    """
    signatures = _read(path).signature_def
    if SIGNATURE not in signatures:
        known = ", ".join(sorted(name for name in signatures if not name.startswith("__")))
        raise ValueError(f"{path} has no signature {SIGNATURE}; it has: {known or 'none'}")
    found = signatures[SIGNATURE]
    return _tensors(found.inputs), _tensors(found.outputs)


def saved_model_folder(path: str | os.PathLike[str]) -> pathlib.Path:
    """Find the SavedModel that stands at `path`: itself, or the highest version in it.

    Args:
        path: a SavedModel's folder, or a folder of numbered versions.

    Raises:
        ValueError: it is neither.
    """
    folder = pathlib.Path(path)
    if (folder / "saved_model.pb").is_file():
        return folder
    versions = [f.parent for f in folder.glob("*/saved_model.pb") if f.parent.name.isdecimal()]
    if not versions:
        raise ValueError(
            f"{folder} is no SavedModel (it holds neither saved_model.pb nor numbered versions) "
            "and no .tflite file"
        )
    return max(versions, key=lambda version: int(version.name))


def saved_model_ops(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """List the operations in a SavedModel, those inside its functions and loops included.

    Args:
        path: the SavedModel's folder.

    Returns:
        Operation, such as "MatMul" -> names of the nodes that run it; a node's name begins with
        the Keras layers it stands in.

    Raises:
        FileNotFoundError: no saved_model.pb in the folder.
        ValueError: saved_model.pb cannot be parsed.
    """
    ops: dict[str, list[str]] = {}
    for node in _nodes(_read(path)):
        ops.setdefault(node.op, []).append(node.name)
    return ops


def unservable_ops(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """List what a TensorFlow server may lack: XLA, `jit_compile`d calls, custom ops, Python.

    Args:
        path: the SavedModel's folder.

    Returns:
        Operation, or "jit_compile", -> names of its nodes or functions; empty when all is well.

    Raises:
        FileNotFoundError: no saved_model.pb in the folder.
        ValueError: saved_model.pb cannot be parsed.
    """
    # tf.raw_ops holds exactly what TensorFlow itself registers; XLA's ops live partly in it.
    found = {
        op: nodes
        for op, nodes in saved_model_ops(path).items()
        if op.startswith("Xla") or op in PYTHON_OPS or not hasattr(tf.raw_ops, op)
    }
    graph = _read(path).graph_def
    compiled = [n.name for n in _nodes(_read(path)) if _must_compile(n)]
    compiled += [f.signature.name for f in graph.library.function if _must_compile(f)]
    return found | ({"jit_compile": compiled} if compiled else {})


def _refuse_unservable(folder: pathlib.Path) -> None:
    ops = unservable_ops(folder)
    if ops:
        listed = "; ".join(f"{op} in {', '.join(sorted(set(n)))}" for op, n in ops.items())
        raise UnsupportedOpError(
            f"the model needs what a TensorFlow server may not have: {listed}. Replace the layer, "
            "or build it without jit_compile",
            ops,
        )


def _target(path: str | os.PathLike[str], version: int | None) -> pathlib.Path:
    folder = pathlib.Path(path)
    if folder.suffix in {".keras", ".h5", ".pb", ".tflite"}:
        raise ValueError(f"a SavedModel is a folder; received the file name {folder}")
    if version is None:
        return folder
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"version must be an integer of at least 1; received {version!r}")
    if (folder / "saved_model.pb").exists():
        raise FileExistsError(
            f"{folder} is a SavedModel itself, so no version can stand in it: choose another folder"
        )
    return folder / str(version)


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


def _tensors(entries: Any) -> dict[str, GraphTensor]:
    return {
        name: GraphTensor(
            entry.name,
            None
            if entry.tensor_shape.unknown_rank
            else tuple(None if d.size < 0 else d.size for d in entry.tensor_shape.dim),
            tf.dtypes.as_dtype(entry.dtype).name,
        )
        for name, entry in sorted(entries.items())
    }
