"""Scan a step function over time, on every backend.

Every implementation computes equal values: an unrolled Python loop, the backend's own scan, and on
TensorFlow two `tf.while_loop`s in `tensorflow_scan`: for training and for inference. The exporters
substitute the implementations (`keras_norm.substitution`).
"""

from collections.abc import Callable

import keras
from keras import ops, tree

from keras_norm.typing import Nest, ScanStep, Tensors


def scan(
    step: Callable[[Nest, Nest], tuple[Nest, Nest]],
    xs: Nest,
    carry: Nest,
    like: Nest,
    *,
    unroll: bool = False,
    training: bool = False,
    independent_rows: bool = False,
) -> tuple[Nest, Nest]:
    """Call a step function once for each timestep, like `jax.lax.scan`; axis 0 of `xs` is time.

    All arguments are nests of tensors. The implementations get their tensors in flat lists.

    Args:
        step: maps (carry, xs at t) to (new carry, ys at t).
        xs: inputs, tensors (time, ...).
        carry: initial state, tensors (batch, ...).
        like: tensors with the shape and dtype of the ys at t.
        unroll: trace every step; time must be static.
        training: whether the result will be differentiated.
        independent_rows: whether each row of a batch is computed from this row alone. The batch is
            the first axis of the carry and the second axis of xs of rank 3.

    Returns:
        The last carry, and the ys stacked over time.
    """

    def flat_step(flat_carry: Tensors, flat_xs: Tensors) -> tuple[Tensors, Tensors]:
        new, ys = step(tree.pack_sequence_as(carry, flat_carry), tree.pack_sequence_as(xs, flat_xs))
        return tree.flatten(new), tree.flatten(ys)

    arguments = tree.flatten(xs), tree.flatten(carry)
    if unroll:
        last, ys = scan_unrolled(flat_step, *arguments)
    elif keras.backend.backend() != "tensorflow":
        last, ys = ops.scan(flat_step, arguments[1], arguments[0])
    else:
        from keras_norm.ops import tensorflow_scan

        flat_like = tree.flatten(like)
        if training:
            last, ys = tensorflow_scan.scan_by_step(flat_step, *arguments, flat_like)
        else:
            last, ys = tensorflow_scan.scan_by_block(
                flat_step, *arguments, flat_like, independent_rows
            )
    return tree.pack_sequence_as(carry, list(last)), tree.pack_sequence_as(like, list(ys))


def scan_unrolled(step: ScanStep, xs: Tensors, carry: Tensors) -> tuple[Tensors, Tensors]:
    """Run a recurrence without a loop: the graph repeats the operations of every timestep.

    Args:
        step: as for `scan`.
        xs: as for `scan`, with a static time.
        carry: as for `scan`.
    """
    steps = []
    for t in range(xs[0].shape[0]):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [ops.stack(y) for y in zip(*steps, strict=True)]
