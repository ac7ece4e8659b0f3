"""The timestep counter of a cell with statistics per timestep."""

from keras import ops

from keras_norm.typing import Tensor

# A cell with statistics per timestep counts the timesteps in its last state, because
# keras.layers.RNN does not pass the timestep. bfloat16 holds integers exactly only up to 256, so
# the count is stored as two digits of base 128.
COUNTER_DIGITS = 2
COUNTER_BASE = 128


def read_counter(counter: Tensor) -> Tensor:
    """Compute the timestep of each sequence, int (batch,), from its timestep counter.

    Masked timesteps are not counted: keras.layers.RNN keeps the old counter there.

    Args:
        counter: the two digits of each sequence's timestep (batch, 2), the high digit first.
    """
    digits = ops.cast(counter, "int32")
    return digits[:, 0] * COUNTER_BASE + digits[:, 1]


def advance_counter(counter: Tensor, counted: Tensor | None = None) -> Tensor:
    """Add 1 to the timestep counter of each sequence, which is stored as two digits (batch, 2).

    With `counted`, bool (batch,), only the counters of these sequences change. The sum is computed
    in integers, because an 8-bit or 16-bit file would round floating-point digits at every
    timestep.
    """
    digits = ops.cast(counter, "int32")
    low = digits[:, 1] + (1 if counted is None else ops.cast(counted, "int32"))
    carry = ops.cast(low >= COUNTER_BASE, "int32")
    after = ops.stack([digits[:, 0] + carry, low - carry * COUNTER_BASE], axis=1)
    return ops.cast(after, counter.dtype)
