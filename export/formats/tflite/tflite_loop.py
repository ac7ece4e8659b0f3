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

# Number of timesteps in a block. The loop writes its outputs to the output sequence block by block.
# Blocks of 8, 16, 32, 64 and sqrt(time) timesteps were timed on sequences of 16 to 1024 timesteps.
# With blocks of 32 the time was at most 4% longer than the shortest time.
BLOCK = 32

# A file in integers can have no loop. It repeats the operations of a recurrent layer for each
# timestep, and may have at most this number of timesteps. Each timestep of a layer with 64 units
# adds 4 kB (LSTM) to 10 kB (LN-LSTM) to the file. The conversion of 100 timesteps took half a
# minute. The conversion of 256 timesteps took one and a half minutes.
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

    # Example: 70 timesteps are blocks of 6, 32 and 32. The loop always writes 32 timesteps (`size`)
    # for a block. So the first block writes 6 timesteps and 26 unused timesteps. The second block
    # overwrites the 26 unused timesteps.
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

    If the number of timesteps is dynamic, or more than `LONGEST_UNROLLED`, the scan still runs in a
    loop, and the exporter raises an error. The arguments and results are as for
    `keras_norm.ops.scan.scan`.
    """
    time = xs[0].shape[0]
    if time is None or time > LONGEST_UNROLLED:
        return scan_for_tflite(step, xs, carry, like)
    return scan_unrolled(step, xs, carry)


def _update_rows(arrays: Tensors, rows: Tensors, start: Tensor) -> Tensors:
    """Return copies of arrays: `rows[i]` overwrites array i from index `start` on axis 0."""
    updated = []
    for array, new in zip(arrays, rows, strict=True):
        at = tf.stack([start, *[0] * (len(array.shape) - 1)])
        # This operation of XLA becomes a builtin operation of TFLite.
        updated.append(dynamic_update_slice(array, new, at))
        updated[-1].set_shape(array.shape)
    return updated


def multiply_for_tflite(xs: Tensors, kernel: Tensor) -> Tensor:
    """Multiply sequences by a kernel, so that the product has static sizes in TFLite.

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
    # Use no fused batch norm: TFLite lacks this operation. The converter would replace it by other
    # operations, whose outputs have large rounding errors if the mean of the inputs is large.
    kernels: {"uses_fused_batch_norm": lambda x, axis, mode: False},
}
# Functions that replace functions of keras_norm while a model is traced for a TFLite file that
# computes in integers.
INTEGER_FUNCTIONS: Substitutes = {
    **TFLITE_FUNCTIONS,
    tensorflow_scan: {"scan_by_step": scan_without_loop, "scan_by_block": scan_without_loop},
}
