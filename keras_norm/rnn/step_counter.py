"""A timestep counter that is carried among the states of a cell.

keras.layers.RNN does not pass the timestep to its cell, so a cell with statistics per timestep
counts the timesteps itself. bfloat16 holds integers exactly only up to 256, so the counter has two
digits in base 128.
"""

from keras import ops

from keras_norm.typing import Tensor

DIGITS = 2
BASE = 128


def read(counter: Tensor) -> Tensor:
    """Return the timestep of each sequence (batch,); masked timesteps are not counted.

    Args:
        counter: digits of each sequence (batch, 2), the high digit first.
    """
    digits = ops.cast(counter, "int32")
    return digits[:, 0] * BASE + digits[:, 1]


def advance(counter: Tensor) -> Tensor:
    """Add one timestep to the counter.

    The sum is computed in integers, because an 8-bit or 16-bit file would round floating-point
    digits at every timestep.
    """
    digits = ops.cast(counter, "int32")
    low = digits[:, 1] + 1
    carry = ops.cast(low >= BASE, "int32")
    after = ops.stack([digits[:, 0] + carry, low - carry * BASE], axis=1)
    return ops.cast(after, counter.dtype)
