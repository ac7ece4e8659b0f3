"""Read the signatures and operations of a SavedModel, without loading it."""

import functools
import pathlib
from collections.abc import Iterator
from typing import TypeAlias

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from keras_norm.export.errors import UnsafeOpError
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.keras_internals import has_cpu_kernel
from keras_norm_verify.data_flow import nodes_with_functions
from keras_norm_verify.printable import printable
from keras_norm_verify.unsafe_ops import describe_unsafe_ops, find_unsafe_ops

Specs: TypeAlias = dict[str, tf.TensorSpec]


class SavedModelFile:
    """The signatures and operations of a SavedModel's graph for serving.

    Args:
        path: the SavedModel's folder.

    Raises:
        FileNotFoundError: the folder has no saved_model.pb.
        ValueError: saved_model.pb cannot be parsed, or has no graph for serving.
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
        self._graph, self._graphs = graphs[0], saved.meta_graphs

    @property
    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return sorted(name for name in self._graph.signature_def if not name.startswith("__"))

    def read_signature(self, name: str = SERVING_DEFAULT) -> tuple[Specs, Specs]:
        """Read the inputs and outputs of a signature; raise ValueError if the file lacks it.

        Returns:
            (inputs, outputs), each name -> `tf.TensorSpec`: shape, type and the tensor's name in
            the graph, "operation:index".
        """
        if name not in self._graph.signature_def:
            known = ", ".join(map(printable, self.signatures)) or "none"
            raise ValueError(f"{self.path} has no signature {name}; its signatures are: {known}")
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
        """The operations of the graph, and of its functions and loops.

        Operation, such as "MatMul" -> names of its nodes. A node's name begins with the names of
        its Keras layers. A call of a function by its name does not count as an operation.
        """
        functions = {f.signature.name for f in self._graph.graph_def.library.function}
        ops: dict[str, list[str]] = {}
        for node in self._nodes():
            if node.op not in functions:
                ops.setdefault(node.op, []).append(node.name)
        return ops

    @property
    def unservable_ops(self) -> dict[str, list[str]]:
        """Operations that a TensorFlow server may lack or reject.

        These operations need XLA, a compiled call, a custom op or a GPU. `unsafe_ops` are included.

        Operation, or "jit_compile" -> names of its nodes or functions; empty if every server can
        run the model.
        """
        # A server may lack XLA. So return every XLA operation, even if TensorFlow has a CPU kernel
        # for this operation.
        found = {
            op: nodes
            for op, nodes in self.ops.items()
            if op.startswith("Xla") or not has_cpu_kernel(op)
        }
        found |= self.unsafe_ops
        compiled = [n.name for n in self._nodes() if _must_compile(n)]
        functions = self._graph.graph_def.library.function
        compiled += [f.signature.name for f in functions if _must_compile(f)]
        return found | ({"jit_compile": compiled} if compiled else {})

    @functools.cached_property
    def unsafe_ops(self) -> dict[str, list[str]]:
        """The operations that may access files, the Python process or other machines.

        Operation -> names of its nodes. All graphs of the file count, because a loader may choose
        another graph than this class.
        """
        found: dict[str, list[str]] = {}
        for graph in self._graphs:
            for op, nodes in find_unsafe_ops(graph).items():
                found.setdefault(op, []).extend(nodes)
        return found

    @property
    def multiplies_integers(self) -> bool:
        """Whether the graph has a matrix product of integers, as after `keras.Model.quantize`."""
        integers = {tf.int8.as_datatype_enum, tf.int32.as_datatype_enum}
        products = (node for node in self._nodes() if "MatMul" in node.op)
        return any(a.type in integers for node in products for a in node.attr.values())

    def write_numbered(
        self, name: str, folder: pathlib.Path
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Copy one signature to `folder`, and number its inputs and outputs, such as "input_0".

        In the empty `folder`, the signature `name` becomes `serving_default`. Some readers read
        `serving_default` only, and confuse an input with an output of equal name, such as a state.
        The weights are linked.

        Returns:
            (inputs, outputs), each name -> the numbered name in the new signature.

        Raises:
            ValueError: there is no such signature.
        """
        input_specs, output_specs = self.read_signature(name)
        inputs = {known: f"input_{i}" for i, known in enumerate(input_specs)}
        outputs = {known: f"output_{i}" for i, known in enumerate(output_specs)}
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

    def _nodes(self) -> Iterator[node_def_pb2.NodeDef]:
        return (node for _, node in nodes_with_functions(self._graph))


def refuse_unsafe(file: SavedModelFile) -> None:
    """Raise UnsafeOpError for a SavedModel that may access anything outside its folder."""
    if ops := file.unsafe_ops:
        raise UnsafeOpError(
            f"{file.path} is not run, because {describe_unsafe_ops(ops)}. Run it only if you trust "
            "its origin: tf.saved_model.load(path)",
            ops,
        )


def _must_compile(item: function_pb2.FunctionDef | node_def_pb2.NodeDef) -> bool:
    return "_XlaMustCompile" in item.attr and item.attr["_XlaMustCompile"].b
