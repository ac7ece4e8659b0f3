"""A timestep counter that travels among the states of a cell.

keras.layers.RNN tells a cell nothing of the time, so that a cell with statistics of every timestep
counts for itself. bfloat16 holds whole numbers exactly only up to 256: the counter has two digits.
"""

from typing import Any

from keras import ops

DIGITS = 2
BASE = 128


def read(counter: Any) -> Any:
    """The timestep of each sequence, (batch,). A masked sequence's counter stands still.

    Args:
        counter: (batch, 2), the digits of each sequence, the high one first.
    """
    digits = ops.cast(counter, "int32")
    return digits[:, 0] * BASE + digits[:, 1]


def advance(counter: Any) -> Any:
    """The counter, one further.

    The digits are whole numbers on the way: a file that computes in 8 or 16 bits would round real
    ones, more at every timestep.
    """
    digits = ops.cast(counter, "int32")
    low = digits[:, 1] + 1
    carry = ops.cast(low >= BASE, "int32")
    after = ops.stack([digits[:, 0] + carry, low - carry * BASE], axis=1)
    return ops.cast(after, counter.dtype)
