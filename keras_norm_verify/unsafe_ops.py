"""Find operations of a SavedModel that may access files, the Python process or other machines.

The functions read messages of TensorFlow's protocol buffers, and import nothing of TensorFlow.
"""

import pathlib
from collections.abc import Iterable, Mapping

from keras_norm_verify.allowed_ops import ALLOWED_OPS
from keras_norm_verify.data_flow import (
    JOINS,
    DataFlow,
    MetaGraph,
    data_input,
    node_name,
    nodes_with_functions,
    unit_of,
)

# SAVE_OPS write the variables of a SavedModel to files, RESTORE_OP reads them. A loader only reads
# variables, so a function that a loader runs must not contain an operation of SAVE_OPS.
SAVE_OPS = frozenset(["SaveV2", "MergeV2Checkpoints"])
RESTORE_OP = "RestoreV2"
# Operations that fill a lookup table from a text file. The second input is the path of the file.
TABLE_FROM_FILE = frozenset(["InitializeTableFromTextFile", "InitializeTableFromTextFileV2"])
# Streams of the operation PrintV2 that are safe: they are not files, and not the standard output,
# from which a program may read results.
LOGS = frozenset([b"stderr", b"log(info)", b"log(warning)", b"log(error)"])
# FROM_BYTES make a tensor from bytes of the file. HANDLES are the dtypes DT_RESOURCE and
# DT_VARIANT: such a tensor could refer to a resource of another model.
FROM_BYTES, HANDLES = frozenset(["Const", "ParseTensor"]), frozenset([20, 21])


def find_unsafe_ops(graph: MetaGraph) -> dict[str, list[str]]:
    """Find the operations that may access files, the Python process or other machines.

    Safe are the operations of `allowed_ops`, and three kinds of operations with a known path: the
    saver restores the variables from the path that the loader gives; nothing that a loader runs
    saves them; and a lookup table is filled from an asset, which is inside the SavedModel's folder.

    Args:
        graph: a graph of a SavedModel.

    Returns:
        Operation -> names of its nodes; "asset" -> paths of assets outside the folder.
    """
    outside = [a.filename for a in graph.asset_file_def if _is_outside(a.filename)]
    found: dict[str, list[str]] = {"asset": outside} if outside else {}
    flow, saver = DataFlow(graph), graph.saver_def
    saving = flow.find_units_of(saver.save_tensor_name, saver.restore_op_name)
    restoring = flow.find_units_of(saver.restore_op_name, saver.save_tensor_name)
    filename, assets = {node_name(saver.filename_tensor_name)}, flow.find_assets()
    for function, node in nodes_with_functions(graph):
        scope, unit = function.signature.name if function else "", unit_of(function, node)
        if node.op in SAVE_OPS:
            origins = flow.find_origins(scope, data_input(node, 0), JOINS)
            safe = unit in saving and origins >= filename and None not in origins
        elif node.op == RESTORE_OP:
            origins = flow.find_origins(scope, data_input(node, 0))
            safe = unit in restoring and origins == filename
        elif node.op in TABLE_FROM_FILE:
            origins = flow.find_origins(scope, data_input(node, 1))
            safe = bool(origins) and origins <= assets
        elif node.op == "PrintV2":
            stream = node.attr.get("output_stream")
            safe = stream is None or stream.s in LOGS
        elif node.op in FROM_BYTES:
            safe = not any(attribute.type in HANDLES for attribute in node.attr.values())
        else:
            safe = node.op in ALLOWED_OPS or node.op in flow.functions
        # A placeholder is an attribute whose value the caller of the function chooses. The caller
        # may choose an unsafe value.
        is_open = any(attribute.placeholder for attribute in node.attr.values())
        if is_open or not safe:
            found.setdefault(node.op, []).append(node.name)
    return found


def describe_unsafe_ops(ops: Mapping[str, Iterable[str]]) -> str:
    """Say why a file is not run: "its operations may access ...: WriteFile in a/WriteFile".

    Args:
        ops: unsafe operation -> names of its nodes.
    """
    found = "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in ops.items())
    return f"its operations may access files, the Python process or other machines: {found}"


def _is_outside(path: str) -> bool:
    """Return whether an asset's path, on Linux or Windows, is absolute or contains ".."."""
    kinds = pathlib.PurePosixPath(path), pathlib.PureWindowsPath(path)
    return any(kind.anchor or ".." in kind.parts for kind in kinds)
