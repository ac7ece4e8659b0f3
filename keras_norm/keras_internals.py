"""Every private name of Keras' and TensorFlow's that the package needs, each with a test."""

from typing import Any


def dynamic_update_slice(array: Any, rows: Any, start: Any) -> Any:
    """The array with `rows` from `start` on, as an operation that TFLite's converter knows.

    Args:
        array: tensor.
        rows: of the array's rank.
        start: int (rank,).
    """
    from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

    return dynamic_update_slice(array, rows, start)


def has_tangents(tensors: list[Any]) -> bool:
    """Whether a `tf.autodiff.ForwardAccumulator` carries a tangent of one of the tensors."""
    from tensorflow.python.eager.forwardprop_util import pack_tangents

    return bool(pack_tangents(tensors).tangents)


def xla_compiles() -> bool:
    """Whether XLA compiles the TensorFlow graph that is being traced."""
    import tensorflow as tf
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return bool(GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))
