"""Scans over time as a `tf.while_loop`. Needs the TensorFlow backend."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras import ops

from keras_norm.keras_internals import dynamic_update_slice, xla_compiles

# Timesteps in one turn of the loop of inference, whose turns cost as much as ten operations.
STEPS = 8
# Rows from which on two halves of a batch are two loops.
SPLIT = 16
# Timesteps whose ys the portable loop collects before it writes them to where they stay: with 32 it
# was within 4% of the fastest of 8, 16, 32, 64 and sqrt(time), from 16 steps to 1024.
BLOCK = 32


def one_by_one(
    step: Callable[..., Any], xs: list[Any], carry: list[Any], like: list[Any]
) -> tuple[Any, Any]:
    """Read and write TensorArrays: linear in time forward and backward, also under XLA.

    Arguments and results are those of `scan.scan`.
    """
    time = ops.shape(xs[0])[0]
    carry, ys = _loop(step, xs, carry, like, time)
    return carry, _with_static_time(ys, xs)


def in_blocks(
    step: Callable[..., Any],
    xs: list[Any],
    carry: list[Any],
    like: list[Any],
    rows_alone: bool = False,
) -> tuple[Any, Any]:
    """The same, `STEPS` timesteps a turn, and those that are left over in a loop of their own.

    Where rows have nothing to do with each other (`rows_alone`), two halves of a batch of `SPLIT`
    are two loops, which TensorFlow runs side by side. A step is traced once, and so are the loops.

    XLA, which has no turns to save, would compile every step of a turn anew.
    """
    if xla_compiles() or tf.executing_eagerly():
        return one_by_one(step, xs, carry, like)
    traced_once = functools.partial(tf.function, autograph=False)
    turns = traced_once(functools.partial(_turns, traced_once(step)))
    time, batch = ops.shape(xs[0])[0], carry[0].shape[0]
    if not rows_alone or (batch is not None and batch < SPLIT):
        carry, ys = turns(xs, carry, like, time)
        return carry, _with_static_time(ys, xs)
    n = tf.shape(carry[0])[0]
    sizes = tf.where(n < SPLIT, [n, 0], [n // 2, n - n // 2])

    def halves(tensors: list[Any], axis: int) -> list[list[Any]]:
        split = [
            tf.split(x, sizes, axis=axis, num=2) if len(x.shape) > axis + 1 else [x, x]
            for x in tensors
        ]
        return [[of_both[half] for of_both in split] for half in range(2)]

    parts = zip(halves(xs, 1), halves(carry, 0), halves(like, 0), strict=True)
    # A half without rows takes no turn.
    found = [
        turns(*half, tf.where(rows > 0, time, 0))
        for half, rows in zip(parts, tf.unstack(sizes), strict=True)
    ]
    after, ys = [zip(*of_halves, strict=True) for of_halves in zip(*found, strict=True)]
    ys = [tf.concat(of_both, axis=1) for of_both in ys]
    for y, row in zip(ys, like, strict=True):
        y.set_shape([None, *row.shape])
    return [tf.concat(of_both, axis=0) for of_both in after], _with_static_time(ys, xs)


def portable(
    step: Callable[..., Any], xs: list[Any], carry: list[Any], like: list[Any]
) -> tuple[Any, Any]:
    """Read by gather and write by slice: all of it TFLite builtins. Arguments as for `one_by_one`.

    TFLite copies what a loop writes at every turn, as long as it is. So the ys of `BLOCK` steps are
    written in a loop of their own, and block by block to where they stay. No gradient is defined.
    """
    time = ops.shape(xs[0])[0]

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


def _turns(
    step: Callable[..., Any], xs: list[Any], carry: list[Any], like: list[Any], time: Any
) -> Any:
    """The last carry, and the ys of `time` steps, `STEPS` a turn; after them ys are zeros."""
    turns = time // STEPS
    whole = turns * STEPS

    def turn(carry: list[Any], blocks: list[Any]) -> tuple[list[Any], list[Any]]:
        steps = []
        for now in zip(*map(tf.unstack, blocks), strict=True):
            carry, ys = _checked(step, carry, list(now))
            steps.append(ys)
        return carry, [tf.stack(y) for y in zip(*steps, strict=True)]

    blocks = [tf.reshape(x[:whole], [turns, STEPS, *ops.shape(x)[1:]]) for x in xs]
    like_blocks = [tf.stack([y] * STEPS) for y in like]
    carry, first = _loop(turn, blocks, carry, like_blocks, turns, extra=1)
    carry, rest = _loop(step, [x[whole:time] for x in xs], carry, like, time - whole, extra=1)
    left = [_zeros(ops.shape(xs[0])[0] - time, y) for y in like]
    ys = zip([tf.reshape(y, [whole, *ops.shape(y)[2:]]) for y in first], rest, left, strict=True)
    return carry, [tf.concat(of_all, axis=0) for of_all in ys]


def _loop(
    step: Callable[..., Any],
    xs: list[Any],
    carry: list[Any],
    like: list[Any],
    time: Any,
    extra: int = 0,
) -> Any:
    """The last carry, and the stacked ys, of `time` turns.

    An array that no turn has written does not know the size of its rows: with one `extra` row,
    which is left out again, it does. (ONNX' converter takes an array that a loop alone writes.)
    """
    read = [tf.TensorArray(x.dtype, time, element_shape=x.shape[1:]).unstack(x) for x in xs]
    write = [tf.TensorArray(y.dtype, extra + time, element_shape=y.shape) for y in like]
    if extra:
        write = [array.write(0, tf.zeros_like(y)) for array, y in zip(write, like, strict=True)]

    def body(t: Any, carry: Any, ys: Any) -> Any:
        carry, new = _checked(step, carry, [array.read(t) for array in read])
        return t + 1, carry, [a.write(extra + t, y) for a, y in zip(ys, new, strict=True)]

    # XLA differentiates a loop only where it knows how long it can be.
    _, carry, ys = tf.while_loop(
        lambda t, *_: t < time, body, (0, carry, write), maximum_iterations=time
    )
    return carry, [array.stack()[extra:] for array in ys]


def _checked(
    step: Callable[..., Any], carry: list[Any], xs: list[Any]
) -> tuple[list[Any], list[Any]]:
    """One step, whose carry keeps the static shape that it came with."""
    new, ys = step(carry, xs)
    for after, before in zip(new, carry, strict=True):
        after.set_shape(before.shape)
    return new, ys


def _zeros(rows: Any, y: Any) -> Any:
    """Zeros (rows, ...) with rows like y, of whose sizes those that are known stay known."""
    return tf.zeros([rows, *ops.shape(y)], y.dtype)


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
