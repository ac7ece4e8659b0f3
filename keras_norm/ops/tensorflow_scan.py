"""Scan over time in a `tf.while_loop`, on the TensorFlow backend."""

import functools

import tensorflow as tf
from keras import ops

from keras_norm.keras_internals import xla_compiles
from keras_norm.typing import ScanStep, Tensor, Tensors

# Number of timesteps in one iteration of the inference loop. One timestep per iteration would be
# slow, because starting an iteration takes as long as ten operations.
STEPS = 8
# Smallest batch size for which the batch is split into two halves, each with its own loop.
SPLIT = 16


def scan_by_step(
    step: ScanStep, xs: Tensors, carry: Tensors, like: Tensors
) -> tuple[Tensors, Tensors]:
    """Run a step function over time in a loop with one timestep per iteration.

    The loop reads and writes TensorArrays, so it takes time linear in the number of timesteps,
    forward and backward, also under XLA. `scan.scan` documents the arguments and results.
    """
    time = ops.shape(xs[0])[0]
    carry, ys = _run_loop(step, xs, carry, like, time)
    return carry, set_static_time(ys, xs)


def scan_by_block(
    step: ScanStep,
    xs: Tensors,
    carry: Tensors,
    like: Tensors,
    independent_rows: bool = False,
) -> tuple[Tensors, Tensors]:
    """Run a step function over time in a loop with `STEPS` timesteps per iteration.

    A second loop runs the remaining timesteps, one per iteration.

    With `independent_rows` and a batch of at least `SPLIT` rows, each half of the batch has its own
    loop, and TensorFlow runs both loops in parallel. The step and the loops are traced once.
    `scan.scan` documents the arguments and results.
    """
    # Blocks of timesteps save no time under XLA: an iteration costs little, and XLA compiles each
    # timestep of a block separately.
    if xla_compiles() or tf.executing_eagerly():
        return scan_by_step(step, xs, carry, like)
    traced_once = functools.partial(tf.function, autograph=False)
    run_blocks = traced_once(functools.partial(_run_blocks, traced_once(step)))
    time, batch = ops.shape(xs[0])[0], carry[0].shape[0]
    if not independent_rows or (batch is not None and batch < SPLIT):
        carry, ys = run_blocks(xs, carry, like, time)
        return carry, set_static_time(ys, xs)
    n = tf.shape(carry[0])[0]
    sizes = tf.where(n < SPLIT, [n, 0], [n // 2, n - n // 2])

    def halves(tensors: Tensors, axis: int) -> list[Tensors]:
        split = [
            tf.split(x, sizes, axis=axis, num=2) if len(x.shape) > axis + 1 else [x, x]
            for x in tensors
        ]
        return [[both[half] for both in split] for half in range(2)]

    arguments = zip(halves(xs, 1), halves(carry, 0), halves(like, 0), strict=True)
    # If a half of the batch has no sequences, its loop has zero iterations.
    results = [
        run_blocks(*half, tf.where(rows > 0, time, 0))
        for half, rows in zip(arguments, tf.unstack(sizes), strict=True)
    ]
    carries, ys = [zip(*of_halves, strict=True) for of_halves in zip(*results, strict=True)]
    ys = [tf.concat(both, axis=1) for both in ys]
    for y, row in zip(ys, like, strict=True):
        y.set_shape([None, *row.shape])
    return [tf.concat(both, axis=0) for both in carries], set_static_time(ys, xs)


def _run_blocks(
    step: ScanStep, xs: Tensors, carry: Tensors, like: Tensors, time: Tensor
) -> tuple[Tensors, Tensors]:
    """Run a step function over the first `time` timesteps, `STEPS` timesteps per iteration.

    Returns:
        The last carry, and the ys of all timesteps: zeros after the first `time`.
    """
    iterations = time // STEPS
    whole = iterations * STEPS

    def run_block(carry: Tensors, blocks: Tensors) -> tuple[Tensors, Tensors]:
        steps = []
        for xs_t in zip(*map(tf.unstack, blocks), strict=True):
            carry, ys = run_step(step, carry, list(xs_t))
            steps.append(ys)
        return carry, [tf.stack(y) for y in zip(*steps, strict=True)]

    blocks = [tf.reshape(x[:whole], [iterations, STEPS, *ops.shape(x)[1:]]) for x in xs]
    like_blocks = [tf.stack([y] * STEPS) for y in like]
    carry, first = _run_loop(run_block, blocks, carry, like_blocks, iterations, extra=1)
    carry, rest = _run_loop(step, [x[whole:time] for x in xs], carry, like, time - whole, extra=1)
    zeros = [zero_rows(ops.shape(xs[0])[0] - time, y) for y in like]
    ys = zip([tf.reshape(y, [whole, *ops.shape(y)[2:]]) for y in first], rest, zeros, strict=True)
    return carry, [tf.concat(ranges, axis=0) for ranges in ys]


def _run_loop(
    step: ScanStep, xs: Tensors, carry: Tensors, like: Tensors, time: Tensor, extra: int = 0
) -> tuple[Tensors, Tensors]:
    """Call a step function `time` times in a loop, and stack its outputs over time.

    A TensorArray without a written row has an unknown row size. So an `extra` row is
    written before the loop, and removed from the result. The ONNX converter needs `extra` = 0: it
    accepts a TensorArray only if all of its rows are written inside the loop.

    Returns:
        The last carry, and the stacked ys.
    """
    read = [tf.TensorArray(x.dtype, time, element_shape=x.shape[1:]).unstack(x) for x in xs]
    write = [tf.TensorArray(y.dtype, extra + time, element_shape=y.shape) for y in like]
    if extra:
        write = [array.write(0, tf.zeros_like(y)) for array, y in zip(write, like, strict=True)]

    def body(
        t: Tensor, carry: Tensors, ys: list[tf.TensorArray]
    ) -> tuple[Tensor, Tensors, list[tf.TensorArray]]:
        carry, new = run_step(step, carry, [array.read(t) for array in read])
        return t + 1, carry, [a.write(extra + t, y) for a, y in zip(ys, new, strict=True)]

    # XLA differentiates a loop only if its maximum number of iterations is known.
    _, carry, ys = tf.while_loop(
        lambda t, *_: t < time, body, (0, carry, write), maximum_iterations=time
    )
    return carry, [array.stack()[extra:] for array in ys]


def run_step(step: ScanStep, carry: Tensors, xs: Tensors) -> tuple[Tensors, Tensors]:
    """Call a step function, and give its new carry the static shape of the old carry.

    A tf.while_loop raises an error if the static shape of the carry changes.
    """
    new, ys = step(carry, xs)
    for after, before in zip(new, carry, strict=True):
        after.set_shape(before.shape)
    return new, ys


def zero_rows(rows: Tensor, y: Tensor) -> Tensor:
    """Create a tensor of zeros with the shape (`rows`, *y.shape) and the dtype of `y`.

    The static dimensions of `y` are static in the result too.
    """
    return tf.zeros([rows, *ops.shape(y)], y.dtype)


def set_static_time(ys: Tensors, xs: Tensors) -> Tensors:
    """Copy the static number of timesteps, the size of axis 0, from `xs` to the tensors `ys`."""
    for y in ys:
        y.set_shape([xs[0].shape[0], *y.shape[1:]])
    return ys
