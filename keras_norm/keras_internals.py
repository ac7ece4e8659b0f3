"""Every private name of Keras' and TensorFlow's that the package needs, each with a test.

The nodes of a functional model are the calls of its layers, each with `operation`, `input_tensors`,
`arguments` and `is_input`. (`tensorflow.core` is not private: it has the format of SavedModels.)
"""

import re
from typing import Any

# What Keras puts before the words of an error that it wraps, and behind them; and what TensorFlow
# puts before those of an error in a graph, the calls that made it.
BEFORE_WORDS = re.compile(
    r"\x1b\[1m|(?:Exception|Error) encountered:|Graph execution error:[^\x1b]*\n\n(?=\S)"
    r"|Detected at node [^\n]*\n(?:<stack [^\n]*\n)?"
)
BEHIND_WORDS = "\x1b[0m"

# Methods of keras.layers.RNN that classes of ours override, and the arguments that Keras calls them
# with.
OVERRIDDEN = {
    "inner_loop": ["sequences", "initial_state", "mask", "training"],
    "_maybe_config_dropout_masks": ["cell", "input_sequence", "input_state"],
}

# Workers of `export.workers` that need a private name, and may import nothing of ours.
WORKERS = dict.fromkeys(
    ("onnx/convert_onnx.py", "saved_model/run_saved_model.py"),
    (
        "tensorflow.python.framework.convert_to_constants",
        "convert_variables_to_constants_v2",
    ),
)

# Operations without a kernel, that TensorFlow replaces before it runs a graph.
REWRITTEN = {"AccumulateNV2"}


def reason(error: BaseException) -> str:
    """What an error says, without the call or the config that Keras wraps around it."""
    words = BEFORE_WORDS.split(str(error))[-1]
    return words.partition(BEHIND_WORDS)[0].strip()


def sublayers(layer: Any) -> list[Any]:
    """The layers that a layer holds, without those that they hold."""
    # `Model.layers`, the public list, stops at wrappers and cells.
    return layer._flatten_layers(include_self=False, recursive=False)


def nodes_of(layer: Any) -> list[Any]:
    """The symbolic calls of a layer, in every model that it stands in."""
    return layer._inbound_nodes


def node_before(tensor: Any) -> Any:
    """The call that gave a symbolic tensor."""
    operation, index, _ = tensor._keras_history
    return operation._inbound_nodes[index]


def nodes_in_order(model: Any) -> list[Any]:
    """The calls that a functional or Sequential model consists of, in the order of computing."""
    graph = getattr(model, "_functional", model)  # a Sequential model keeps one
    by_depth = sorted(graph._nodes_by_depth.items(), reverse=True)
    return [node for _, nodes in by_depth for node in nodes if not node.is_input]


def dynamic_update_slice(array: Any, rows: Any, start: Any) -> Any:
    """The array with `rows` from `start` on, as an operation that TFLite's converter knows.

    Args:
        array: tensor.
        rows: of the array's rank.
        start: int (rank,).
    """
    from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

    return dynamic_update_slice(array, rows, start)


def xla_compiles() -> bool:
    """Whether XLA compiles the TensorFlow graph that is being traced."""
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def operations_are_watched() -> bool:
    """Whether something looks at every TensorFlow operation, as check_numerics does.

    What it adds to a graph XLA does not know.
    """
    from tensorflow.python.eager import context

    return bool(context.context().op_callbacks)


def has_cpu_kernel(op: str) -> bool:
    """Whether TensorFlow computes an operation on a CPU, whatever devices are here."""
    from tensorflow.python.framework import kernels

    devices = {kernel.device_type for kernel in kernels.get_registered_kernels_for_op(op).kernel}
    return op in REWRITTEN or not devices.isdisjoint({"CPU", "DEFAULT"})
