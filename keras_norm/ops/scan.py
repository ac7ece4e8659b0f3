"""Run a recurrence over time.

Every implementation computes equal values: an unrolled Python loop, the backend's own scan, and on
TensorFlow three `tf.while_loop`s in `tensorflow_scan`: for training, for inference and for TFLite.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

Step = Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]

_exported: ContextVar[str] = ContextVar("exported", default="")


@contextmanager
def exported_loops(to: str) -> Iterator[None]:
    """Trace loops for an exported file inside the block; such loops are never compiled by XLA.

    Args:
        to: "saved_model", "onnx" or "tflite". The loops for TFLite are portable: their batch and
            time may be dynamic. They are slow in TensorFlow itself, and have no gradient.
    """
    token = _exported.set(to)
    try:
        yield
    finally:
        _exported.reset(token)


def loops_are_exported() -> bool:
    """Return whether loops are being traced for an exported file."""
    return bool(_exported.get())


def loops_are_portable() -> bool:
    """Return whether loops are being traced for TFLite."""
    return _exported.get() == "tflite"


def scan(
    step: Step,
    xs: Sequence[Any],
    carry: Sequence[Any],
    like: Sequence[Any],
    *,
    unroll: bool = False,
    training: bool = False,
    independent_rows: bool = False,
) -> tuple[list[Any], list[Any]]:
    """Run a recurrence over the first axis.

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
    arguments: tuple[Step, Any, Any, Any] = (step, list(xs), list(carry), list(like))
    if unroll:
        return _scan_unrolled(*arguments)
    if keras.backend.backend() != "tensorflow":
        last, ys = ops.scan(step, arguments[2], arguments[1])
        return last, list(ys)
    from keras_norm.ops import tensorflow_scan

    if loops_are_portable():
        return tensorflow_scan.scan_for_tflite(*arguments)
    if training or _exported.get() == "onnx":
        return tensorflow_scan.scan_by_step(*arguments)
    return tensorflow_scan.scan_by_block(*arguments, independent_rows=independent_rows)


def _scan_unrolled(step: Step, xs: list[Any], carry: list[Any], like: list[Any]) -> Any:
    steps = []
    for t in range(xs[0].shape[0]):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [ops.stack(y) for y in zip(*steps, strict=True)]
