"""Run a recurrence over time.

Every implementation computes equal values: an unrolled Python loop, the backend's own scan, and on
TensorFlow two `tf.while_loop`s in `tensorflow_scan`: for training and for inference. The exporters
substitute the implementations (`keras_norm.substitution`).
"""

from collections.abc import Sequence

import keras
from keras import ops

from keras_norm.typing import ScanStep, Tensor, Tensors


def scan(
    step: ScanStep,
    xs: Sequence[Tensor],
    carry: Sequence[Tensor],
    like: Sequence[Tensor],
    *,
    unroll: bool = False,
    training: bool = False,
    independent_rows: bool = False,
) -> tuple[Tensors, Tensors]:
    """Run a recurrence over time, the first axis of `xs`.

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
    xs, carry, like = list(xs), list(carry), list(like)
    if unroll:
        return scan_unrolled(step, xs, carry)
    if keras.backend.backend() != "tensorflow":
        last, ys = ops.scan(step, carry, xs)
        return last, list(ys)
    from keras_norm.ops import tensorflow_scan

    if training:
        return tensorflow_scan.scan_by_step(step, xs, carry, like)
    return tensorflow_scan.scan_by_block(step, xs, carry, like, independent_rows)


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
