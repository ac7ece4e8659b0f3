"""Whether a shape comes by often enough to be compiled for."""

from typing import Any

import tensorflow as tf

# A compile takes as long as some thousands of timesteps in the plain form (2 to 5 s).
HOT = 4000
# Shapes that are counted at a time; once all of them are hot, no other is compiled for.
SHAPES = 8


def is_hot(name: str, batch: Any, time: Any) -> Any:
    """Count the timesteps of one shape, and tell whether they make it worth a compile.

    The counts belong to the process and to no layer: they stand in a resource that the graph itself
    names, so that a model's weights, and what is saved of it, do not have them.

    Args:
        name: of what would be compiled.
        batch: int32 scalar.
        time: int32 scalar.

    Returns:
        bool scalar: whether (batch, time) has had `HOT` timesteps, this call's included.
    """
    table = tf.raw_ops.VarHandleOp(
        dtype=tf.int32, shape=[SHAPES, 3], shared_name=f"keras_norm/{name}", container=""
    )
    shapes = tf.cond(
        tf.raw_ops.VarIsInitializedOp(resource=table),
        lambda: tf.raw_ops.ReadVariableOp(resource=table, dtype=tf.int32),
        lambda: tf.zeros([SHAPES, 3], tf.int32),
    )
    steps = shapes[:, 2]
    known = tf.reduce_all(shapes[:, :2] == tf.stack([batch, time]), axis=1)
    # A shape that was not seen takes the place of the coldest.
    rank = tf.where(known, -1, steps)
    row = tf.argmin(rank, output_type="int32")
    seen = tf.where(known[row], steps[row], 0) + time
    keep = tf.logical_and(tf.logical_not(known[row]), steps[row] >= HOT)
    update = tf.stack([batch, time, tf.minimum(seen, HOT)])[None]
    shapes = tf.where(keep, shapes, tf.tensor_scatter_nd_update(shapes, row[None, None], update))
    tf.raw_ops.AssignVariableOp(resource=table, value=shapes)
    return tf.logical_and(seen >= HOT, tf.logical_not(keep))
