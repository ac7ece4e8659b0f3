"""Scans over time as a `tf.while_loop`. Needs the TensorFlow backend."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Step = Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]


def fast(step: Step, xs: list[Any], carry: list[Any], like: list[Any]) -> tuple[Any, Any]:
    """Read and write TensorArrays: linear in time forward and backward, also under XLA.

    Args:
        step: maps (carry, xs at t) to (new carry, ys at t).
        xs: tensors (time, ...).
        carry: initial carry.
        like: tensors of the shape and dtype of the ys at t.

    Returns:
        The last carry, and the ys stacked over time.
    """
    time = _length(xs)
    read = [tf.TensorArray(x.dtype, time, element_shape=x.shape[1:]).unstack(x) for x in xs]
    write = [tf.TensorArray(y.dtype, time, element_shape=y.shape) for y in like]

    def body(t: Any, carry: Any, ys: Any) -> Any:
        carry, new = _checked(step, carry, [array.read(t) for array in read])
        return t + 1, carry, [array.write(t, y) for array, y in zip(ys, new, strict=True)]

    # XLA differentiates a loop only where it knows how long it can be.
    _, carry, ys = tf.while_loop(
        lambda t, *_: t < time, body, (0, carry, write), maximum_iterations=time
    )
    return carry, _with_static_time([array.stack() for array in ys], xs)


def portable(step: Step, xs: list[Any], carry: list[Any], like: list[Any]) -> tuple[Any, Any]:
    """Read by gather and write by scatter: all of it TFLite builtins. Arguments as for `fast`."""
    time = _length(xs)
    write = [tf.zeros([time, *tf.unstack(tf.shape(y))], y.dtype) for y in like]

    def body(t: Any, carry: Any, ys: Any) -> Any:
        carry, new = _checked(step, carry, [tf.gather(x, t) for x in xs])
        at = tf.reshape(t, (1, 1))
        written = [
            tf.tensor_scatter_nd_update(array, at, y[None])
            for array, y in zip(ys, new, strict=True)
        ]
        for array, before in zip(written, ys, strict=True):
            array.set_shape(before.shape)
        return t + 1, carry, written

    _, carry, ys = tf.while_loop(lambda t, *_: t < time, body, (0, carry, write))
    return carry, _with_static_time(ys, xs)


def _length(xs: list[Any]) -> Any:
    return tf.shape(xs[0])[0] if xs[0].shape[0] is None else xs[0].shape[0]


def _checked(step: Step, carry: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
    """One step, whose carry keeps the static shape that it came with."""
    new, ys = step(carry, xs)
    for after, before in zip(new, carry, strict=True):
        after.set_shape(before.shape)
    return new, ys


def _with_static_time(ys: list[Any], xs: list[Any]) -> list[Any]:
    for y in ys:
        y.set_shape([xs[0].shape[0], *y.shape[1:]])
    return ys
