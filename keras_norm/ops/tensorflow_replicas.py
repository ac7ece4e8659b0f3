"""Add up tensors over the replicas of a TensorFlow strategy."""

import tensorflow as tf

from keras_norm.keras_internals import is_graph_of_replica
from keras_norm.typing import Tensor


def count_replicas() -> int:
    """Return the number of replicas of the tf.distribute strategy; 1 outside of `strategy.run`."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else int(context.num_replicas_in_sync)


def is_in_loop() -> bool:
    """Return whether a replica runs this code in a loop, a conditional or a nested tf.function."""
    return not is_graph_of_replica()


def sum_over_replicas(x: Tensor) -> Tensor:
    """Sum `x` over all replicas."""
    # `all_reduce` needs a tensor with a device: a constant has none, but `tf.identity(x)` has.
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(x))


def max_over_replicas(time: int | Tensor) -> Tensor:
    """Return the largest number of timesteps of all replicas."""
    # Compare all replicas even if `time` is static: each replica has inputs of its own shape.
    context = tf.distribute.get_replica_context()
    return tf.reduce_max(context.all_gather(tf.reshape(tf.identity(time), (1,)), axis=0))
