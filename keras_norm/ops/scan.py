"""The loop over time: what every timestep reads, carries on and leaves.

The forms compute the same: an unrolled Python loop; the backend's own scan; and on TensorFlow a
`tf.while_loop`, of which `tensorflow_scan` has three: for training, for inference, and one that
converts to TFLite.
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
    """Trace loops for a file, which never holds a compiled one.

    Args:
        to: "saved_model"; "onnx"; or "tflite", whose loops are portable: they take a dynamic batch
            and time, are slow in TensorFlow itself, and have no gradient.
    """
    token = _exported.set(to)
    try:
        yield
    finally:
        _exported.reset(token)


def loops_are_exported() -> bool:
    """Whether loops are traced for a file."""
    return bool(_exported.get())


def loops_are_portable() -> bool:
    """Whether loops are traced in the form that TFLite converts."""
    return _exported.get() == "tflite"


def scan(
    step: Step,
    xs: Sequence[Any],
    carry: Sequence[Any],
    like: Sequence[Any],
    *,
    unroll: bool = False,
    training: bool = False,
    rows_alone: bool = False,
) -> tuple[list[Any], list[Any]]:
    """Run a recurrence over the first axis.

    Args:
        step: maps (carry, xs at t) to (new carry, ys at t).
        xs: tensors (time, ...).
        carry: what the first step is given, tensors (batch, ...).
        like: tensors of the shape and dtype of the ys at t.
        unroll: write the steps one after the other; time must be static.
        training: whether a gradient will be asked for.
        rows_alone: whether the rows of a batch, the first axis of the carry and the second of xs of
            rank 3, have nothing to do with each other.

    Returns:
        The last carry, and the ys stacked over time.
    """
    given: tuple[Step, Any, Any, Any] = (step, list(xs), list(carry), list(like))
    if unroll:
        return _unrolled(*given)
    if keras.backend.backend() != "tensorflow":
        last, ys = ops.scan(step, given[2], given[1])
        return last, list(ys)
    from keras_norm.ops import tensorflow_scan

    if loops_are_portable():
        return tensorflow_scan.portable(*given)
    if training or _exported.get() == "onnx":
        return tensorflow_scan.one_by_one(*given)
    return tensorflow_scan.in_blocks(*given, rows_alone=rows_alone)


def _unrolled(step: Step, xs: list[Any], carry: list[Any], like: list[Any]) -> Any:
    steps = []
    for t in range(xs[0].shape[0]):
        carry, ys = step(carry, [x[t] for x in xs])
        steps.append(ys)
    return carry, [ops.stack(y) for y in zip(*steps, strict=True)]
