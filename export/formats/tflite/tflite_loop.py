"""Replace functions of keras_norm by functions that convert to TFLite's builtin operations."""

import tensorflow as tf
from keras import ops

from keras_norm.keras_internals import dynamic_update_slice
from keras_norm.ops import kernels, tensorflow_scan
from keras_norm.ops.scan import scan_unrolled
from keras_norm.ops.tensorflow_scan import run_step, set_static_time, zero_rows
from keras_norm.rnn.core import operations
from keras_norm.rnn.core.operations import multiply
from keras_norm.substitution import Substitutes
from keras_norm.typing import ScanStep, Tensor, Tensors

# Number of timesteps whose outputs the loop collects before it writes them to the output sequence.
# The time with 32 was within 4% of the shortest time with 8, 16, 32, 64 and sqrt(time), for
# sequences of 16 to 1024 timesteps.
BLOCK = 32

# Largest number of timesteps for which a file in integers has no loop: the file repeats the
# operations of a recurrent layer for each timestep. Each timestep of a layer with 64 units adds
# 4 kB (LSTM) to 10 kB (LN-LSTM) to the file. The conversion of 100 timesteps took half a minute,
# and of 256 timesteps one and a half minutes.
LONGEST_UNROLLED = 128


def scan_for_tflite(
    step: ScanStep, xs: Tensors, carry: Tensors, like: Tensors, independent_rows: bool = False
) -> tuple[Tensors, Tensors]:
    """Scan over timesteps with TFLite's builtin operations; write outputs in blocks of timesteps.

    TFLite copies the whole output of a loop in every iteration. So an inner loop writes the ys of
    `BLOCK` timesteps to a small tensor, and the outer loop copies that tensor to the output. Batch
    and time may be dynamic. The loop is slow in TensorFlow itself, and has no gradient. The
    arguments and results are as for `keras_norm.ops.scan.scan`.
    """
    time = ops.shape(xs[0])[0]

    def run(start: Tensor, end: Tensor, carry: Tensors, block: Tensors) -> tuple[Tensors, Tensors]:
        def body(t: Tensor, carry: Tensors, block: Tensors) -> tuple[Tensor, Tensors, Tensors]:
            carry, ys = run_step(step, carry, [tf.gather(x, t) for x in xs])
            rows = [tf.expand_dims(y, 0) for y in ys]
            return t + 1, carry, _update_rows(block, rows, t - start)

        _, carry, block = tf.while_loop(lambda t, *_: t < end, body, (start, carry, block))
        return carry, block

    if not like:
        return run(0, time, carry, [])
    size = tf.minimum(BLOCK, time)

    def body(
        start: Tensor, end: Tensor, carry: Tensors, block: Tensors, ys: Tensors
    ) -> tuple[Tensor, Tensor, Tensors, Tensors, Tensors]:
        carry, block = run(start, end, carry, block)
        return end, end + size, carry, block, _update_rows(ys, block, start)

    # Only the first block may be shorter than `size`: 70 timesteps are blocks of 6, 32 and 32. The
    # loop writes `size` timesteps for each block. So the first block also writes 26 unused
    # timesteps, and the second block overwrites these 26 timesteps.
    first = time - (time - 1) // size * size
    block, ys = [zero_rows(size, y) for y in like], [zero_rows(time, y) for y in like]
    *_, carry, _, ys = tf.while_loop(
        lambda start, *_: start < time, body, (0, first, carry, block, ys)
    )
    return carry, set_static_time(ys, xs)


def scan_without_loop(
    step: ScanStep, xs: Tensors, carry: Tensors, like: Tensors, independent_rows: bool = False
) -> tuple[Tensors, Tensors]:
    """Scan over timesteps without a loop, because TensorFlow's quantizer cannot convert loops.

    Sequences that are dynamic, or longer than `LONGEST_UNROLLED`, still run in a loop. The
    arguments and results are as for `keras_norm.ops.scan.scan`.
    """
    time = xs[0].shape[0]
    if time is None or time > LONGEST_UNROLLED:
        return scan_for_tflite(step, xs, carry, like)
    return scan_unrolled(step, xs, carry)


def _update_rows(arrays: Tensors, rows: Tensors, start: Tensor) -> Tensors:
    """Write `rows` into each array, from index `start` of the first axis on."""
    updated = []
    for array, new in zip(arrays, rows, strict=True):
        at = tf.stack([start, *[0] * (len(array.shape) - 1)])
        # TFLite's converter replaces XLA's dynamic update of a slice by a builtin operation.
        updated.append(dynamic_update_slice(array, new, at))
        updated[-1].set_shape(array.shape)
    return updated


def multiply_for_tflite(xs: Tensors, kernel: Tensor) -> Tensor:
    """Multiply sequences with a kernel by `einsum`, so that TFLite knows the shape of the product.

    This function replaces `keras_norm.rnn.core.operations.multiply`. TFLite converts `einsum` to
    one operation with static sizes. `ops.matmul` flattens x and makes the shape of the product
    dynamic: TFLite then plans its memory again in every call.
    """
    if len(xs) == 1 and len(xs[0].shape) == 3:
        return ops.einsum("tbi,ij->tbj", xs[0], kernel)
    return multiply(xs, kernel)


# Functions that replace functions of keras_norm while a model is traced for a TFLite file.
TFLITE_FUNCTIONS: Substitutes = {
    tensorflow_scan: {"scan_by_step": scan_for_tflite, "scan_by_block": scan_for_tflite},
    operations: {"multiply": multiply_for_tflite},
    # Use no fused batch norm: TFLite lacks this operation, and the converter would replace it by
    # operations that round large means.
    kernels: {"uses_fused_batch_norm": lambda x, axis, mode: False},
}
# Functions that replace functions of keras_norm while a model is traced for a TFLite file that
# computes in integers.
INTEGER_FUNCTIONS: Substitutes = {
    **TFLITE_FUNCTIONS,
    tensorflow_scan: {"scan_by_step": scan_without_loop, "scan_by_block": scan_without_loop},
}
