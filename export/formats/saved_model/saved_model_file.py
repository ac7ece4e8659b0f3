"""Read what stands in a SavedModel, without loading it."""

import functools
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from tensorflow.core.framework import function_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.keras_internals import has_cpu_kernel
from keras_norm_verify import resolved

# Operations that reach files, the Python process or other machines, by a part of their names.
REACHING = re.compile(
    r"(Read|Write|Whole)File|MatchingFiles|TextFile|TextLine|FileSystem|FileWriter|DbWriter"
    r"|SummaryWriter|Write\w*Summary|ImportEvent|Save|Restore|MergeV2Checkpoints|LoadAndRemapMatrix"
    r"|LoadDataset|RecordInput|Record(Reader|Dataset)|ToTFRecord|CSVDataset|LMDB|Sql"
    r"|Snapshot\w*Dataset|SnapshotChunk|CacheDataset|DumpTensor|Debug(Identity|Nan|Numeric)"
    r"|PyFunc|Rpc|DataService|RegisterDataset|RemoteCall|Collective|Send|Recv"
)
# Those by which every SavedModel's variables are written and read.
OF_THE_SAVER = frozenset(["SaveV2", "MergeV2Checkpoints", "RestoreV2"])
# Fills a lookup table, from a file in the SavedModel's folder whose name its function is given.
FROM_ASSET = frozenset(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"])

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
        Keras layers it stands in. A call of a function by its name is no operation.
        """
        functions = {f.signature.name for f in self._graph.graph_def.library.function}
        ops: dict[str, list[str]] = {}
        for node in self._nodes():
            if node.op not in functions:
                ops.setdefault(node.op, []).append(node.name)
        return ops

    @property
    def unservable(self) -> dict[str, list[str]]:
        """What a TensorFlow server may lack: XLA, compiled calls, custom ops, a GPU.

        With them are those of `reaching`.

        Operation, or "jit_compile", -> names of its nodes or functions; empty when all is well.
        """
        # Some of XLA's ops have kernels for CPUs in part of TensorFlow's builds.
        found = {
            op: nodes
            for op, nodes in self.ops.items()
            if op.startswith("Xla") or not has_cpu_kernel(op)
        }
        found |= self.reaching
        compiled = [n.name for n in self._nodes() if _must_compile(n)]
        functions = self._graph.graph_def.library.function
        compiled += [f.signature.name for f in functions if _must_compile(f)]
        return found | ({"jit_compile": compiled} if compiled else {})

    @functools.cached_property
    def reaching(self) -> dict[str, list[str]]:
        """The operations that reach files, the Python process or other machines.

        Those by which the variables are saved and restored are left out, unless something else than
        the saver calls them, and so are the tables that are filled from an asset.

        Operation -> names of its nodes.
        """
        found: dict[str, list[str]] = {}
        saver = self._called_by_the_saver_alone
        for function, node in self._nodes_with_functions():
            if not _reaches(node):
                continue
            if node.op in OF_THE_SAVER and (function.signature.name or node.name) in saver:
                continue
            arguments = {argument.name for argument in function.signature.input_arg}
            if node.op in FROM_ASSET and node.input[1] in arguments:
                continue
            found.setdefault(node.op, []).append(node.name)
        return found

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
        return (node for _, node in self._nodes_with_functions())

    def _nodes_with_functions(self) -> Iterator[tuple[Any, Any]]:
        """Every node, with the function that it stands in, or an empty one."""
        outside = function_pb2.FunctionDef()
        yield from ((outside, node) for node in self._graph.graph_def.node)
        for function in self._graph.graph_def.library.function:
            yield from ((function, node) for node in function.node_def)

    @property
    def _called_by_the_saver_alone(self) -> set[str]:
        """Functions, and nodes outside of functions, that run to save and restore variables."""
        saver = self._graph.saver_def
        own = self._run_by([saver.save_tensor_name, saver.restore_op_name])
        ends = [end for s in self._graph.signature_def.values() for end in s.outputs.values()]
        others = [end.name for end in ends]
        others += self._graph.object_graph_def.concrete_functions
        return own - self._run_by([*others, *(self._edges.keys() - own)])

    def _run_by(self, names: Iterable[str]) -> set[str]:
        """The nodes and functions that run where these do, themselves included."""
        found: set[str] = set()
        pending = [name.lstrip("^").partition(":")[0] for name in names]
        while pending:
            if (name := pending.pop()) not in found:
                found.add(name)
                pending += self._edges.get(name, ())
        return found

    @functools.cached_property
    def _edges(self) -> dict[str, set[str]]:
        """By function, and by node outside of functions, what it needs: nodes and functions."""
        functions = {f.signature.name for f in self._graph.graph_def.library.function}
        found: dict[str, set[str]] = {}
        for function, node in self._nodes_with_functions():
            needs = found.setdefault(function.signature.name or node.name, set())
            needs |= functions & {node.op, *_function_names(node)}
            if not function.signature.name:
                needs |= {name.lstrip("^").partition(":")[0] for name in node.input}
        return found


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
            + ". Load it: keras.saving.load_model(path)"
            * (folder.suffix == ".keras")
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


def _reaches(node: Any) -> bool:
    """Whether a node's operation reaches files, the Python process or other machines."""
    if node.op == "PrintV2" and "output_stream" in node.attr:
        return node.attr["output_stream"].s.startswith(b"file:")
    return REACHING.search(node.op) is not None


def _function_names(node: Any) -> Iterator[str]:
    """The functions that a node calls, as a loop calls its body."""
    for attribute in node.attr.values():
        yield attribute.func.name
        yield from (function.name for function in attribute.list.func)


def _must_compile(item: Any) -> bool:
    return "_XlaMustCompile" in item.attr and item.attr["_XlaMustCompile"].b
