"""Scans over time as a `tf.while_loop`. Needs the TensorFlow backend."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python.xla import dynamic_update_slice

# Steps whose ys the portable loop collects before it writes them to where they stay: with 32 it was
# within 4% of the fastest of 8, 16, 32, 64 and sqrt(time), from 16 steps to 1024.
BLOCK = 32

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
    """Read by gather and write by slice: all of it TFLite builtins. Arguments as for `fast`.

    TFLite copies what a loop writes at every turn, as long as it is. So the ys of `BLOCK` steps are
    written in a loop of their own, and block by block to where they stay. No gradient is defined.
    """
    time = _length(xs)

    def run(start: Any, end: Any, carry: Any, block: Any) -> tuple[Any, Any]:
        def body(t: Any, carry: Any, block: Any) -> Any:
            carry, ys = _checked(step, carry, [tf.gather(x, t) for x in xs])
            rows = [tf.expand_dims(y, 0) for y in ys]
            return t + 1, carry, _written(block, rows, t - start)

        return tf.while_loop(lambda t, *_: t < end, body, (start, carry, block))[1:]

    if not like:
        return run(0, time, carry, [])
    size = tf.minimum(BLOCK, time)

    def body(start: Any, end: Any, carry: Any, block: Any, ys: Any) -> Any:
        carry, block = run(start, end, carry, block)
        return end, end + size, carry, block, _written(ys, block, start)

    # The first block is what the full ones leave over. The rows after it, which it writes as well,
    # are written again.
    first = time - (time - 1) // size * size
    block, ys = [_zeros(size, y) for y in like], [_zeros(time, y) for y in like]
    *_, carry, _, ys = tf.while_loop(
        lambda start, *_: start < time, body, (0, first, carry, block, ys)
    )
    return carry, _with_static_time(ys, xs)


def _length(xs: list[Any]) -> Any:
    return tf.shape(xs[0])[0] if xs[0].shape[0] is None else xs[0].shape[0]


def _checked(step: Step, carry: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
    """One step, whose carry keeps the static shape that it came with."""
    new, ys = step(carry, xs)
    for after, before in zip(new, carry, strict=True):
        after.set_shape(before.shape)
    return new, ys


def _zeros(rows: Any, y: Any) -> Any:
    """Zeros (rows, ...) with rows like y, of whose sizes those that are known stay known."""
    sizes = [tf.shape(y)[i] if n is None else n for i, n in enumerate(y.shape)]
    return tf.zeros([rows, *sizes], y.dtype)


def _written(arrays: list[Any], rows: list[Any], start: Any) -> list[Any]:
    """The arrays with `rows` in place of as many of theirs, from `start` on."""
    written = []
    for array, new in zip(arrays, rows, strict=True):
        at = tf.stack([start, *[0] * (len(array.shape) - 1)])
        # An op of XLA's, of which the converter makes one of TFLite's.
        written.append(dynamic_update_slice(array, new, at))
        written[-1].set_shape(array.shape)
    return written


def _with_static_time(ys: list[Any], xs: list[Any]) -> list[Any]:
    for y in ys:
        y.set_shape([xs[0].shape[0], *y.shape[1:]])
    return ys
