"""Read what stands in a SavedModel, without loading it."""

import functools
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

# What TensorFlow's loader does not take literally.
PATTERN = frozenset("*?[\\") if os.sep == "/" else frozenset("*?[")

Specs = dict[str, tf.TensorSpec]


class SavedModelFile:
    """What stands in a SavedModel, of its one graph for serving.

    Args:
        path: the SavedModel's folder.

    Raises:
        FileNotFoundError: it has no saved_model.pb.
        ValueError: that cannot be parsed, or has no graph for serving.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        file = path / "saved_model.pb"
        saved = saved_model_pb2.SavedModel()
        try:
            saved.ParseFromString(file.read_bytes())
        except DecodeError as error:
            raise ValueError(f"{file} is not a SavedModel, or is damaged") from error
        graphs = [graph for graph in saved.meta_graphs if "serve" in graph.meta_info_def.tags]
        if not graphs:
            raise ValueError(f"{file} has no graph for serving (tag serve)")
        self._graph: Any = graphs[0]

    @property
    def signatures(self) -> list[str]:
        """Names of the signatures."""
        return sorted(name for name in self._graph.signature_def if not name.startswith("__"))

    def ends(self, name: str = SERVING_DEFAULT) -> tuple[Specs, Specs]:
        """The inputs and outputs of a signature.

        Args:
            name: of the signature.

        Returns:
            (inputs, outputs), each name -> its shape and type, and its name in the graph,
            "operation:index".

        Raises:
            ValueError: there is no such signature.
        """
        if name not in self._graph.signature_def:
            known = ", ".join(self.signatures) or "none"
            raise ValueError(f"{self.path} has no signature {name}; it has: {known}")
        found = self._graph.signature_def[name]
        inputs, outputs = (
            {
                known: tf.TensorSpec(entry.tensor_shape, entry.dtype, entry.name)
                for known, entry in sorted(entries.items())
            }
            for entries in (found.inputs, found.outputs)
        )
        return inputs, outputs

    @functools.cached_property
    def ops(self) -> dict[str, list[str]]:
        """The operations, those inside its functions and loops included.

        Operation, such as "MatMul" -> names of the nodes that run it; a node's name begins with the
        Keras layers it stands in.
        """
        ops: dict[str, list[str]] = {}
        for node in self._nodes():
            ops.setdefault(node.op, []).append(node.name)
        return ops

    @property
    def unservable(self) -> dict[str, list[str]]:
        """What a TensorFlow server may lack: XLA, compiled calls, custom ops, Python, a GPU.

        Operation, or "jit_compile", -> names of its nodes or functions; empty when all is well.
        """
        # Some of XLA's ops have kernels for CPUs in part of TensorFlow's builds.
        found = {
            op: nodes
            for op, nodes in self.ops.items()
            if op.startswith("Xla") or op in PYTHON_OPS or not has_cpu_kernel(op)
        }
        compiled = [n.name for n in self._nodes() if _must_compile(n)]
        functions = self._graph.graph_def.library.function
        compiled += [f.signature.name for f in functions if _must_compile(f)]
        return found | ({"jit_compile": compiled} if compiled else {})

    @property
    def multiplies_integers(self) -> bool:
        """Whether a product is one of integers, as `keras.Model.quantize` makes them."""
        integers = {tf.int8.as_datatype_enum, tf.int32.as_datatype_enum}
        products = (node for node in self._nodes() if "MatMul" in node.op)
        return any(a.type in integers for node in products for a in node.attr.values())

    def write_numbered(
        self, name: str, folder: pathlib.Path
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Write a SavedModel that has one signature of this, with inputs and outputs numbered.

        There are readers that see `serving_default` only, and that cannot tell an input from an
        output of the same name, which states have. The weights are linked, not copied.

        Args:
            name: of the signature, which becomes `serving_default`.
            folder: where to, an empty folder.

        Returns:
            (inputs, outputs), each name -> its name in the new signature.

        Raises:
            ValueError: there is no such signature.
        """
        specs, answers = self.ends(name)
        inputs = {known: f"input_{i}" for i, known in enumerate(specs)}
        outputs = {known: f"output_{i}" for i, known in enumerate(answers)}
        old, numbered = self._graph.signature_def[name], meta_graph_pb2.SignatureDef()
        for known, new in inputs.items():
            numbered.inputs[new].CopyFrom(old.inputs[known])
        for known, new in outputs.items():
            numbered.outputs[new].CopyFrom(old.outputs[known])
        saved = saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[self._graph])
        for known in self.signatures:
            del saved.meta_graphs[0].signature_def[known]
        saved.meta_graphs[0].signature_def[SERVING_DEFAULT].CopyFrom(numbered)
        (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
        (folder / "variables").symlink_to((self.path / "variables").resolve())
        return inputs, outputs

    def _nodes(self) -> Iterator[Any]:
        yield from self._graph.graph_def.node
        for function in self._graph.graph_def.library.function:
            yield from function.node_def


def saved_model_folder(path: pathlib.Path) -> pathlib.Path:
    """Find the SavedModel that stands at `path`: itself, or the highest version in it.

    Args:
        path: a SavedModel's folder, or a folder of numbered versions.

    Raises:
        ValueError: it is neither, or as `require_literal`.
    """
    folder = require_literal(resolved(path))
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            f"{folder} is no SavedModel (it holds neither saved_model.pb nor numbered versions) "
            "and no TFLite file"
        )
    return folder


def require_literal(path: pathlib.Path) -> pathlib.Path:
    """Return the path of a SavedModel, which TensorFlow must not read as a pattern.

    Raises:
        ValueError: it has one of the characters of `PATTERN`.
    """
    if found := sorted(PATTERN & set(str(path))):
        raise ValueError(
            f"TensorFlow reads {' '.join(found)} in the path of a SavedModel as a pattern, and may "
            f"not find its weights. Received: {path}. Choose another path"
        )
    return path


def _must_compile(item: Any) -> bool:
    return "_XlaMustCompile" in item.attr and item.attr["_XlaMustCompile"].b
