"""Write a SavedModel in operations that LiteRT computes in 8 and 16 bits."""

import math
import pathlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

FILE = "saved_model.pb"
FLOAT32 = tf.float32.as_datatype_enum
WHOLE = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
# A bound beyond them protects from 0 or infinity.
SMALL, LARGE = 1e-2, 1e3

# Without a kernel of 16 bits, as functions that have one. (LiteRT has no 16 bits for
# SQUARED_DIFFERENCE either, but TensorFlow's quantizer writes it.)
REAL: dict[str, Callable[..., Any]] = {
    "Neg": lambda x: -1.0 * x,
    "Square": lambda x: x * x,
    "SquaredDifference": lambda a, b: (a - b) * (a - b),
}
# TensorFlow's quantizer takes compared integers for real numbers, and then has no range for them.
# a - min(a, b) is 0 where a <= b, and nowhere else, even where it overflows.
COMPARED: dict[str, Callable[..., Any]] = {
    "Equal": lambda a, b: tf.logical_not(_nonzero(a - b)),
    "NotEqual": lambda a, b: _nonzero(a - b),
    "Greater": lambda a, b: _nonzero(a - tf.minimum(a, b)),
    "GreaterEqual": lambda a, b: tf.logical_not(_nonzero(b - tf.minimum(a, b))),
    "Less": lambda a, b: _nonzero(b - tf.minimum(a, b)),
    "LessEqual": lambda a, b: tf.logical_not(_nonzero(a - tf.minimum(a, b))),
}
# Both sides and the result share one scale, in which a small bound is 0 and a large one overflows.
# Of the two forms each adds no number far larger than its result.
SMALL_BOUND: dict[str, Callable[..., Any]] = {
    "Maximum": lambda x, bound: bound + tf.nn.relu(x - bound),
    "Minimum": lambda x, bound: bound - tf.nn.relu(bound - x),
}
LARGE_BOUND: dict[str, Callable[..., Any]] = {
    "Maximum": lambda x, bound: x + tf.nn.relu(bound - x),
    "Minimum": lambda x, bound: x - tf.nn.relu(x - bound),
}


def rewrite_for_integers(folder: pathlib.Path, bits: int) -> None:
    """Replace operations that are wrong or missing in integers by others that compute the same.

    Args:
        folder: the SavedModel, which is changed.
        bits: of activations, 8 or 16.
    """
    path = folder / FILE
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in model.meta_graphs:
        library = graph.graph_def.library
        for function in list(library.function):
            found = [(node, _replacement(node, function, bits)) for node in function.node_def]
            calls = {node.name: _traced(node, new) for node, new in found if new is not None}
            library.function.extend(calls.values())
            for node in function.node_def:
                if node.name in calls:
                    _call(node, calls[node.name])
            _rename_outputs(function, calls)
    path.write_bytes(model.SerializeToString())


def _nonzero(x: Any) -> Any:
    return tf.cast(x, tf.bool)


def _replacement(node: Any, function: Any, bits: int) -> Callable[..., Any] | None:
    """The function to call in place of a node, or None where the node may stay."""
    # Asked for a key that it has not, the map would add it.
    dtype = node.attr["T"].type if "T" in node.attr else None
    if dtype == FLOAT32 and node.op in SMALL_BOUND:
        return _bounded(node, function)
    if bits != 16:
        return None
    if dtype == FLOAT32 and node.op == "Sum":
        return _scaled_mean(node, function)
    return (REAL if dtype == FLOAT32 else COMPARED if dtype in WHOLE else {}).get(node.op)


def _bounded(node: Any, function: Any) -> Callable[..., Any] | None:
    """A bound by a constant that protects from 0 or infinity."""
    constants = {
        other.name: tf.make_ndarray(other.attr["value"].tensor)
        for other in function.node_def
        if other.op == "Const"
    }
    for place, reference in enumerate(node.input[:2]):
        size = np.max(np.abs(constants.get(reference.partition(":")[0], 0.0)), initial=0.0)
        if 0.0 < size < SMALL or size > LARGE:
            compute = (SMALL_BOUND if size < SMALL else LARGE_BOUND)[node.op]
            return compute if place == 1 else _swapped(compute)
    return None


def _swapped(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: compute(b, a)


def _scaled_mean(node: Any, function: Any) -> Callable[..., Any] | None:
    """A Sum of 16 bits is clipped to the range of its summands: n times their mean is not."""
    before, after = _shape(node.input[0], function), _shape(f"{node.name}:output:0", function)
    if before is None or after is None or before.count(-1) != after.count(-1):
        return None  # unknown, or a dynamic dimension is summed over
    before, after = ([size for size in shape if size != -1] for shape in (before, after))
    count, keep = math.prod(before) / max(math.prod(after), 1), node.attr["keep_dims"].b
    return lambda x, axis: count * tf.reduce_mean(x, axis, keepdims=keep)


def _shape(reference: str, function: Any) -> list[int] | None:
    """The shape of an argument, "x", or of a node's output, "node:output:0"; -1 is dynamic."""
    name, _, place = reference.partition(":")
    if place:
        (owner,) = (node for node in function.node_def if node.name == name)
    else:
        names = [argument.name for argument in function.signature.input_arg]
        owner = function.arg_attr[names.index(name)]
    if "_output_shapes" not in owner.attr:
        return None
    shape = owner.attr["_output_shapes"].list.shape[int(place.rpartition(":")[2] or 0)]
    return None if shape.unknown_rank else [dim.size for dim in shape.dim]


def _traced(node: Any, replacement: Callable[..., Any]) -> Any:
    """A function for the library, whose nodes have the node's name as their scope."""
    dtypes = [node.attr["T"].type] * 2
    if node.op == "Sum":  # of an axis, whose type is not stored where it is the usual one
        dtypes[1] = node.attr["Tidx"].type or tf.int32.as_datatype_enum
    inputs = [name for name in node.input if not name.startswith("^")]

    def compute(*tensors: Any) -> Any:
        with tf.name_scope(f"{node.name}/"):
            return replacement(*tensors)

    signature = [tf.TensorSpec(None, tf.as_dtype(dtype)) for dtype in dtypes[: len(inputs)]]
    traced = tf.function(compute, input_signature=signature, autograph=False)
    return traced.get_concrete_function().function_def


def _call(node: Any, function: Any) -> None:
    """Make a node a call of a function."""
    for name in [name for name in node.attr if not name.startswith("_")]:
        del node.attr[name]
    node.op = "PartitionedCall"
    node.attr["f"].func.name = function.signature.name
    for name, arguments in (
        ("Tin", function.signature.input_arg),
        ("Tout", function.signature.output_arg),
    ):
        node.attr[name].list.type.extend(argument.type for argument in arguments)


def _rename_outputs(function: Any, calls: Collection[str]) -> None:
    """Refer to the one output of a call by the name that it has there."""

    def renamed(reference: str) -> str:
        name, _, place = reference.partition(":")
        return f"{name}:output:0" if place and name in calls else reference

    for node in function.node_def:
        node.input[:] = [renamed(reference) for reference in node.input]
    for name in function.ret:
        function.ret[name] = renamed(function.ret[name])
