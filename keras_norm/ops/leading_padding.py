"""Move leading padding (masked timesteps before the first unmasked timestep) to the end."""

import keras
from keras import ops

from keras_norm.ops.custom_gradient import Gradient, with_custom_gradient
from keras_norm.typing import Tensor


def count_leading_padding(mask: Tensor) -> Tensor:
    """Count the masked timesteps before the first unmasked timestep of each sequence.

    The count of a fully masked sequence is its number of timesteps.

    Args:
        mask: bool (batch, time), True at unmasked timesteps.

    Returns:
        The counts, int32 (batch, 1).
    """
    # TFLite cannot sum bools, so they are cast to int32.
    unmasked = ops.cumsum(ops.cast(mask, "int32"), axis=1)
    return ops.sum(ops.cast(unmasked == 0, "int32"), axis=1, keepdims=True)


def roll_sequences(x: Tensor, shift: Tensor) -> Tensor:
    """Roll each sequence along time by its own number of timesteps, as in `numpy.roll`.

    ::

        y[b, t] = x[b, (t - shift[b]) mod time]        dx[b, t] = dy[b, (t + shift[b]) mod time]

    TensorFlow computes this gradient as the opposite roll. JAX and PyTorch derive it from the
    gather, as a scatter with the same values.

    With a negative count of leading padding as the shift, each sequence begins at its first
    unmasked timestep. With the positive count the timesteps return to their positions.

    Args:
        x: (batch, time, ...).
        shift: int32 (batch, 1).
    """

    def function(x: Tensor, shift: Tensor) -> tuple[Tensor, Gradient]:
        return _roll(x, shift), lambda dy: [roll_sequences(dy, -shift)]

    # The gradient of a roll is the opposite roll. Without this custom gradient, TensorFlow would
    # differentiate `tf.gather` and compute a sum over segments.
    return with_custom_gradient(function, x, shift)


def gather_timesteps(x: Tensor, index: Tensor) -> Tensor:
    """Gather the timesteps `index` of each sequence: y[b, t] = x[b, index[b, t]].

    Args:
        x: (batch, time, ...).
        index: timesteps, int (batch, time).
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(x, index, batch_dims=1)  # one operation
    return ops.take_along_axis(x, ops.reshape(index, (*index.shape, *[1] * (x.ndim - 2))), axis=1)


def _roll(x: Tensor, shift: Tensor) -> Tensor:
    time = ops.shape(x)[1]
    return gather_timesteps(x, ops.mod(ops.arange(time) - shift, time))
