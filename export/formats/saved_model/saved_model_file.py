"""Read the signatures and operations of a SavedModel, without loading it."""

import functools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from keras_norm.export.errors import UnsafeOpError
from keras_norm.export.golden_cases.artifact import resolve_version
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.keras_internals import has_cpu_kernel

# Matches the names of operations that access files, the Python process or other machines.
UNSAFE = re.compile(
    r"(Read|Write|Whole)File|MatchingFiles|TextFile|TextLine|FileSystem|FileWriter|DbWriter"
    r"|SummaryWriter|Write\w*Summary|ImportEvent|Save|Restore|MergeV2Checkpoints|LoadAndRemapMatrix"
    r"|LoadDataset|RecordInput|Record(Reader|Dataset)|ToTFRecord|CSVDataset|LMDB|Sql"
    r"|Snapshot\w*Dataset|SnapshotChunk|CacheDataset|DumpTensor|Debug(Identity|Nan|Numeric)"
    r"|PyFunc|Rpc|DataService|RegisterDataset|RemoteCall|Collective|Send|Recv"
)
# The operations that save and restore the variables of every SavedModel.
SAVER_OPS = frozenset(["SaveV2", "MergeV2Checkpoints", "RestoreV2"])
# Operations that fill a lookup table from an asset of the SavedModel. The asset's path is an
# argument of the function that runs the operation.
TABLE_FROM_ASSET = frozenset(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"])

# Characters in a path that TensorFlow's loader reads as a pattern of file names.
PATTERN = frozenset("*?[\\") if os.sep == "/" else frozenset("*?[")

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
        self._graph = graphs[0]

    @property
    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return sorted(name for name in self._graph.signature_def if not name.startswith("__"))

    def read_signature(self, name: str = SERVING_DEFAULT) -> tuple[Specs, Specs]:
        """Read the inputs and outputs of a signature.

        Args:
            name: name of the signature.

        Returns:
            (inputs, outputs), each name -> `tf.TensorSpec`: shape, type and the tensor's name in
            the graph, "operation:index".

        Raises:
            ValueError: there is no such signature.
        """
        if name not in self._graph.signature_def:
            known = ", ".join(self.signatures) or "none"
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
        # A server may lack XLA, so an XLA op is unservable even if TensorFlow has a CPU kernel.
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
        """The operations that access files, the Python process or other machines.

        Two kinds of operations are excluded: operations that save and restore variables, if only
        the saver calls them; and operations that fill a lookup table from an asset.

        Operation -> names of its nodes.
        """
        found: dict[str, list[str]] = {}
        saver = self._saver_only
        for function, node in self._nodes_with_functions():
            if not _is_unsafe(node):
                continue
            if node.op in SAVER_OPS and (function.signature.name or node.name) in saver:
                continue
            arguments = {argument.name for argument in function.signature.input_arg}
            if node.op in TABLE_FROM_ASSET and node.input[1] in arguments:
                continue
            found.setdefault(node.op, []).append(node.name)
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
        """Copy the SavedModel, but with one signature whose inputs and outputs share no name.

        The new names are "input_0" and "output_0". Some readers read `serving_default` only, and
        confuse an input with an output of equal name, such as a state. The weights are linked.

        Args:
            name: name of the signature, which becomes `serving_default`.
            folder: the empty folder to write to.

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
        return (node for _, node in self._nodes_with_functions())

    def _nodes_with_functions(
        self,
    ) -> Iterator[tuple[function_pb2.FunctionDef, node_def_pb2.NodeDef]]:
        """Yield (function, node) for every node; a node outside functions has an empty function."""
        outside = function_pb2.FunctionDef()
        yield from ((outside, node) for node in self._graph.graph_def.node)
        for function in self._graph.graph_def.library.function:
            yield from ((function, node) for node in function.node_def)

    @property
    def _saver_only(self) -> set[str]:
        """Names of the functions and graph nodes that run only to save and restore variables."""
        saver = self._graph.saver_def
        own = self._required_by([saver.save_tensor_name, saver.restore_op_name])
        signatures = self._graph.signature_def.values()
        others = [tensor.name for s in signatures for tensor in s.outputs.values()]
        others += self._graph.object_graph_def.concrete_functions
        return own - self._required_by([*others, *(self._requirements.keys() - own)])

    def _required_by(self, names: Iterable[str]) -> set[str]:
        """Return the given nodes and functions, and all nodes and functions that they run."""
        found: set[str] = set()
        pending = [name.lstrip("^").partition(":")[0] for name in names]
        while pending:
            if (name := pending.pop()) not in found:
                found.add(name)
                pending += self._requirements.get(name, ())
        return found

    @functools.cached_property
    def _requirements(self) -> dict[str, set[str]]:
        """Map each function or graph node to the functions and graph nodes that it needs."""
        functions = {f.signature.name for f in self._graph.graph_def.library.function}
        found: dict[str, set[str]] = {}
        for function, node in self._nodes_with_functions():
            needs = found.setdefault(function.signature.name or node.name, set())
            needs |= functions & {node.op, *_function_names(node)}
            if not function.signature.name:
                needs |= {name.lstrip("^").partition(":")[0] for name in node.input}
        return found


def refuse_unsafe(file: SavedModelFile) -> None:
    """Raise UnsafeOpError for a SavedModel that accesses anything outside its folder when it runs.

    Args:
        file: the SavedModel.
    """
    if ops := file.unsafe_ops:
        listed = "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in ops.items())
        raise UnsafeOpError(
            f"{file.path} accesses files, the Python process or other machines, so it is not run: "
            f"{listed}. Run it only if you trust its origin: tf.saved_model.load(path)",
            ops,
        )


def saved_model_folder(path: pathlib.Path) -> pathlib.Path:
    """Find the SavedModel at `path`: the folder `path`, or its highest version.

    Args:
        path: a SavedModel's folder, or a folder of numbered versions.

    Raises:
        ValueError: `path` is not a SavedModel and has no versions, or as `require_literal`.
    """
    folder = require_literal(resolve_version(path))
    if not (folder / "saved_model.pb").is_file():
        raise ValueError(
            f"{folder} is not a SavedModel: it has neither saved_model.pb nor numbered versions. "
            "Give the folder that export_saved_model wrote"
        )
    return folder


def require_literal(path: pathlib.Path) -> pathlib.Path:
    """Return a SavedModel's path; raise ValueError if TensorFlow reads the path as a pattern.

    Raises:
        ValueError: the path contains a character of `PATTERN`.
    """
    if found := sorted(PATTERN & set(str(path))):
        raise ValueError(
            f"TensorFlow reads {' '.join(found)} in the path of a SavedModel as a pattern, and may "
            f"not find its weights; received {path}. Choose another path"
        )
    return path


def _is_unsafe(node: node_def_pb2.NodeDef) -> bool:
    """Return whether a node accesses files, the Python process or other machines."""
    if node.op == "PrintV2" and "output_stream" in node.attr:
        return bool(node.attr["output_stream"].s.startswith(b"file:"))
    return UNSAFE.search(node.op) is not None


def _function_names(node: node_def_pb2.NodeDef) -> Iterator[str]:
    """Yield the names of the functions that a node calls, such as the body of a loop."""
    for attribute in node.attr.values():
        yield attribute.func.name
        yield from (function.name for function in attribute.list.func)


def _must_compile(item: function_pb2.FunctionDef | node_def_pb2.NodeDef) -> bool:
    return "_XlaMustCompile" in item.attr and item.attr["_XlaMustCompile"].b
