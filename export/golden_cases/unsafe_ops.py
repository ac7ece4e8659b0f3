"""Find operations of a SavedModel that access files, the Python process or other machines.

The functions read messages of TensorFlow's protocol buffers, and import nothing of TensorFlow.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

# Matches the names of operations that access files, the Python process or other machines. The last
# line has operations that read a file named by an attribute or an input, and operations that run a
# graph from a string: the names of the operations in the string are not visible here.
UNSAFE = re.compile(
    r"(Read|Write|Whole)File|MatchingFiles|TextFile|TextLine|FileSystem|FileWriter|DbWriter"
    r"|SummaryWriter|Write\w*Summary|ImportEvent|Save|Restore|MergeV2Checkpoints|LoadAndRemapMatrix"
    r"|LoadDataset|RecordInput|Record(Reader|Dataset)|ToTFRecord|CSVDataset|LMDB|Sql"
    r"|Snapshot\w*Dataset|SnapshotChunk|CacheDataset|DumpTensor|Debug(Identity|Nan|Numeric)"
    r"|PyFunc|Rpc|DataService|RegisterDataset|RemoteCall|Collective|Send|Recv"
    r"|VocabRemapping|FixedUnigram|Skipgram|(En|De)codeProto|DatasetFromGraph|DeserializeIterator"
)
# The operations that save and restore the variables of every SavedModel.
SAVER_OPS = frozenset(["SaveV2", "MergeV2Checkpoints", "RestoreV2"])
# Operations that fill a lookup table from an asset of the SavedModel. The asset's path is an
# argument of the function that runs the operation.
TABLE_FROM_ASSET = frozenset(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"])

# Messages of TensorFlow: MetaGraphDef and NodeDef. A function is a FunctionDef, or None for the
# nodes outside functions.
MetaGraph: TypeAlias = Any
Node: TypeAlias = Any
Function: TypeAlias = Any


def find_unsafe_ops(graph: MetaGraph) -> dict[str, list[str]]:
    """Find the operations that access files, the Python process or other machines.

    Two kinds of operations are excluded: operations that save and restore variables, if only the
    saver calls them; and operations that fill a lookup table from an asset. The path of an asset
    must be inside the folder of the SavedModel.

    Args:
        graph: a graph of a SavedModel.

    Returns:
        Operation -> names of its nodes; "asset" -> paths of assets outside the folder.
    """
    paths = [asset.filename for asset in graph.asset_file_def]
    outside = [path for path in paths if path.startswith("/") or ".." in path.split("/")]
    found: dict[str, list[str]] = {"asset": outside} if outside else {}
    saver = _find_saver(graph)
    for function, node in nodes_with_functions(graph):
        if not _is_unsafe(node):
            continue
        if node.op in SAVER_OPS and (function.signature.name if function else node.name) in saver:
            continue
        arguments = {a.name for a in function.signature.input_arg} if function else set()
        if node.op in TABLE_FROM_ASSET and node.input[1] in arguments:
            continue
        found.setdefault(node.op, []).append(node.name)
    return found


def describe_unsafe_ops(ops: Mapping[str, Iterable[str]]) -> str:
    """Describe operations and their nodes: "WriteFile in a/WriteFile, b/WriteFile".

    Args:
        ops: operation -> names of its nodes.
    """
    return "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in ops.items())


def nodes_with_functions(graph: MetaGraph) -> Iterator[tuple[Function, Node]]:
    """Yield (function, node) for every node; the function is None for a node outside functions.

    Args:
        graph: a graph of a SavedModel.
    """
    yield from ((None, node) for node in graph.graph_def.node)
    for function in graph.graph_def.library.function:
        yield from ((function, node) for node in function.node_def)


def _is_unsafe(node: Node) -> bool:
    """Return whether a node accesses files, the Python process or other machines."""
    if node.op == "PrintV2" and "output_stream" in node.attr:
        return bool(node.attr["output_stream"].s.startswith(b"file:"))
    return UNSAFE.search(node.op) is not None


def _find_saver(graph: MetaGraph) -> set[str]:
    """Find the functions and graph nodes that run only to save and restore variables."""
    saver = graph.saver_def
    requirements = _find_requirements(graph)
    own = _required_by([saver.save_tensor_name, saver.restore_op_name], requirements)
    signatures = graph.signature_def.values()
    others = [tensor.name for s in signatures for tensor in s.outputs.values()]
    others += graph.object_graph_def.concrete_functions
    return own - _required_by([*others, *(requirements.keys() - own)], requirements)


def _required_by(names: Iterable[str], requirements: Mapping[str, set[str]]) -> set[str]:
    """Return the given nodes and functions, and all nodes and functions that they run."""
    found: set[str] = set()
    pending = [_node_name(name) for name in names]
    while pending:
        if (name := pending.pop()) not in found:
            found.add(name)
            pending += requirements.get(name, ())
    return found


def _find_requirements(graph: MetaGraph) -> dict[str, set[str]]:
    """Map each function or graph node to the functions and graph nodes that it needs."""
    functions = {f.signature.name for f in graph.graph_def.library.function}
    found: dict[str, set[str]] = {}
    for function, node in nodes_with_functions(graph):
        needs = found.setdefault(function.signature.name if function else node.name, set())
        needs |= functions & {node.op, *_called_functions(node)}
        if not function:
            needs |= {_node_name(name) for name in node.input}
    return found


def _node_name(tensor: str) -> str:
    """Return the name of the node of a tensor: "a" for "a:0" and "^a"."""
    return tensor.lstrip("^").partition(":")[0]


def _called_functions(node: Node) -> Iterator[str]:
    """Yield the names of the functions that a node calls, such as the body of a loop."""
    for attribute in node.attr.values():
        yield attribute.func.name
        yield from (function.name for function in attribute.list.func)
