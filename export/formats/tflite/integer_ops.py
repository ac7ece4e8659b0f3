"""Replace the operations of a SavedModel that LiteRT computes wrongly in 8 or 16 bits."""

import math
import pathlib
from collections.abc import Callable, Collection
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.protobuf import saved_model_pb2

from keras_norm.typing import Tensor

# Function that computes the output of a graph node from the node's inputs.
TensorFunction: TypeAlias = Callable[..., Tensor]

FILE = "saved_model.pb"
FLOAT32 = tf.float32.as_datatype_enum
WHOLE = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
# max(x, c) and min(x, c) are rewritten if the constant c is below SMALL or above LARGE: 1e-7 keeps
# x away from 0, and 1e9 keeps x away from infinity.
SMALL, LARGE = 1e-2, 1e3

# Operation without a 16-bit kernel in LiteRT -> equivalent function of operations that have 16-bit
# kernels. TensorFlow's quantizer would write SQUARED_DIFFERENCE in 16 bits, and LiteRT could not
# run the file.
REAL: dict[str, TensorFunction] = {
    "Neg": lambda x: -1.0 * x,
    "Square": lambda x: x * x,
    "SquaredDifference": lambda a, b: (a - b) * (a - b),
}
# Comparison of two integers -> equivalent function that compares one integer with 0. TensorFlow's
# quantizer would treat the two integers as real numbers, but has no scale for them. For example,
# a > b becomes (a - min(a, b)) != 0. The difference is 0 if a <= b. Otherwise the difference is not
# 0, even if the subtraction overflows.
COMPARED: dict[str, TensorFunction] = {
    "Equal": lambda a, b: tf.logical_not(_nonzero(a - b)),
    "NotEqual": lambda a, b: _nonzero(a - b),
    "Greater": lambda a, b: _nonzero(a - tf.minimum(a, b)),
    "GreaterEqual": lambda a, b: tf.logical_not(_nonzero(b - tf.minimum(a, b))),
    "Less": lambda a, b: _nonzero(b - tf.minimum(a, b)),
    "LessEqual": lambda a, b: tf.logical_not(_nonzero(a - tf.minimum(a, b))),
}
# LiteRT's MAXIMUM and MINIMUM use one scale for both operands and the result. In this scale a small
# constant is rounded to 0, and a large constant overflows. The functions below avoid this error:
# they add two numbers that are at most about as large as the result.
SMALL_BOUND: dict[str, TensorFunction] = {
    "Maximum": lambda x, bound: bound + tf.nn.relu(x - bound),
    "Minimum": lambda x, bound: bound - tf.nn.relu(bound - x),
}
LARGE_BOUND: dict[str, TensorFunction] = {
    "Maximum": lambda x, bound: x + tf.nn.relu(bound - x),
    "Minimum": lambda x, bound: x - tf.nn.relu(x - bound),
}


def rewrite_for_integers(folder: pathlib.Path, bits: int) -> None:
    """Replace the operations of a SavedModel that LiteRT computes wrongly in 8 or 16 bits."""
    path = folder / FILE
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in model.meta_graphs:
        library = graph.graph_def.library
        for function in list(library.function):
            found = [(node, _replacement(node, function, bits)) for node in function.node_def]
            calls = {node.name: _trace(node, new) for node, new in found if new is not None}
            library.function.extend(calls.values())
            for node in function.node_def:
                if node.name in calls:
                    _call(node, calls[node.name])
            _rename_outputs(function, calls)
    path.write_bytes(model.SerializeToString())


def _nonzero(x: Tensor) -> Tensor:
    return tf.cast(x, tf.bool)


def _replacement(node: NodeDef, function: FunctionDef, bits: int) -> TensorFunction | None:
    """Return the function that replaces a node; None if LiteRT computes the node correctly."""
    # Test `"T" in node.attr` first: `node.attr["T"]` would add a missing key "T" to the node.
    dtype = node.attr["T"].type if "T" in node.attr else None
    if dtype == FLOAT32 and node.op in SMALL_BOUND:
        return _replace_bound(node, function)
    if bits != 16:
        return None
    if dtype == FLOAT32 and node.op == "Sum":
        return _replace_sum(node, function)
    return (REAL if dtype == FLOAT32 else COMPARED if dtype in WHOLE else {}).get(node.op)


def _replace_bound(node: NodeDef, function: FunctionDef) -> TensorFunction | None:
    """Return a replacement for max(x, c) or min(x, c) if the constant c is tiny or huge."""
    constants = {
        other.name: tf.make_ndarray(other.attr["value"].tensor)
        for other in function.node_def
        if other.op == "Const"
    }
    for position, reference in enumerate(node.input[:2]):
        size = np.max(np.abs(constants.get(reference.partition(":")[0], 0.0)), initial=0.0)
        if 0.0 < size < SMALL or size > LARGE:
            compute = (SMALL_BOUND if size < SMALL else LARGE_BOUND)[node.op]
            return compute if position == 1 else _swapped(compute)
    return None


def _swapped(compute: TensorFunction) -> TensorFunction:
    return lambda a, b: compute(b, a)


def _replace_sum(node: NodeDef, function: FunctionDef) -> TensorFunction | None:
    """Return a function that computes sum(x) as n * mean(x); return None if the size n is dynamic.

    In 16 bits LiteRT clips a Sum to the range of its summands. It does not clip n times the mean.
    """
    before, after = _shape(node.input[0], function), _shape(f"{node.name}:output:0", function)
    if before is None or after is None or before.count(-1) != after.count(-1):
        return None  # the number of summands is not static, so the Sum cannot be replaced
    before, after = ([size for size in shape if size != -1] for shape in (before, after))
    count, keep = math.prod(before) / max(math.prod(after), 1), node.attr["keep_dims"].b
    return lambda x, axis: count * tf.reduce_mean(x, axis, keepdims=keep)


def _shape(reference: str, function: FunctionDef) -> list[int] | None:
    """Return the shape of a tensor in a graph function; None if the rank is unknown.

    A dynamic dimension is -1. The tensor "x" is an argument of the function, and "node:output:0" is
    the output of a node.
    """
    name, _, output = reference.partition(":")
    if output:
        (owner,) = (node for node in function.node_def if node.name == name)
    else:
        names = [argument.name for argument in function.signature.input_arg]
        owner = function.arg_attr[names.index(name)]
    if "_output_shapes" not in owner.attr:
        return None
    shape = owner.attr["_output_shapes"].list.shape[int(output.rpartition(":")[2] or 0)]
    return None if shape.unknown_rank else [dim.size for dim in shape.dim]


def _trace(node: NodeDef, replacement: TensorFunction) -> FunctionDef:
    """Trace the Python function `replacement` to a TensorFlow graph function.

    The names of its operations begin with the name of `node`. A call of the graph function will
    replace `node`.
    """
    dtypes = [node.attr["T"].type] * 2
    if node.op == "Sum":
        # The second input of Sum is the axis. Its dtype is the attribute "Tidx", by default int32.
        dtypes[1] = node.attr["Tidx"].type or tf.int32.as_datatype_enum
    inputs = [name for name in node.input if not name.startswith("^")]

    def compute(*tensors: Tensor) -> Tensor:
        with tf.name_scope(f"{node.name}/"):
            return replacement(*tensors)

    signature = [tf.TensorSpec(None, tf.as_dtype(dtype)) for dtype in dtypes[: len(inputs)]]
    traced = tf.function(compute, input_signature=signature, autograph=False)
    return traced.get_concrete_function().function_def


def _call(node: NodeDef, function: FunctionDef) -> None:
    """Change a graph node to a call of a graph function."""
    for name in [name for name in node.attr if not name.startswith("_")]:
        del node.attr[name]
    node.op = "PartitionedCall"
    node.attr["f"].func.name = function.signature.name
    for name, arguments in (
        ("Tin", function.signature.input_arg),
        ("Tout", function.signature.output_arg),
    ):
        node.attr[name].list.type.extend(argument.type for argument in arguments)


def _rename_outputs(function: FunctionDef, calls: Collection[str]) -> None:
    """Correct references to nodes that are calls now: "neg:y:0" becomes "neg:output:0"."""

    def rename(reference: str) -> str:
        name, _, output = reference.partition(":")
        return f"{name}:output:0" if output and name in calls else reference

    for node in function.node_def:
        node.input[:] = [rename(reference) for reference in node.input]
    for name in function.ret:
        function.ret[name] = rename(function.ret[name])
