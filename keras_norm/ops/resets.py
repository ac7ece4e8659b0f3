"""Reset states and count timesteps in a batch whose rows contain several sequences each.

`resets` is True at the first timestep of each sequence of a row. The first sequence of a row starts
at timestep 0, whatever `resets` is there.
"""

from keras import ops

from keras_norm.ops.leading_padding import gather_timesteps
from keras_norm.typing import Tensor, Tensors


def split_states(states: Tensors, resets: Tensor | None) -> tuple[Tensors, Tensors]:
    """Return the states at timestep 0, and the states after a reset ([] without resets).

    Args:
        states: the states at timestep 0, followed by the states after a reset if there are resets.
        resets: bool tensor, or None.
    """
    n = len(states) if resets is None else len(states) // 2
    return states[:n], states[n:]


def reset_states(states: Tensors, resets: Tensor | None, after_reset: Tensors) -> Tensors:
    """Replace the states by `after_reset` where a new sequence starts at this timestep.

    Args:
        states: the states after the previous timestep, each (..., batch, units).
        resets: bool (..., batch, 1), or None.
        after_reset: states (batch, units).
    """
    if resets is None:
        return states
    return [ops.where(resets, new, old) for new, old in zip(after_reset, states, strict=True)]


def reverse_resets(resets: Tensor) -> Tensor:
    """Compute `resets` for inputs reversed in time: a sequence starts at its last timestep.

    ::

        y[b, t] = resets[b, time - t]        y[b, 0] = False

    Args:
        resets: bool (batch, time).
    """
    return ops.concatenate([ops.zeros_like(resets[:, :1]), ops.flip(resets[:, 1:], axis=1)], axis=1)


def count_unmasked(mask: Tensor, resets: Tensor) -> Tensor:
    """Count at each timestep the unmasked timesteps of its sequence so far, int32 (batch, time).

    Args:
        mask: bool (batch, time), True at unmasked timesteps.
        resets: bool (batch, time).
    """
    now = ops.cast(mask, "int32")
    count = ops.cumsum(now, axis=1)
    return count - _latest(count - now, resets)


def count_timesteps(mask: Tensor | None, resets: Tensor) -> Tensor:
    """Return the index of each timestep in its sequence, from 0, int32 (batch, time).

    Args:
        mask: bool (batch, time): count from the first unmasked timestep, and return any numbers of
            at least 0 before it. None: count from the first timestep.
        resets: bool (batch, time).
    """
    steps = ops.arange(ops.shape(resets)[1], dtype="int32")
    starts = resets
    if mask is not None:
        starts = ops.logical_and(mask, count_unmasked(mask, resets) == 1)
    return steps - _latest(steps, starts)


def _latest(values: Tensor, flags: Tensor) -> Tensor:
    """Return for each timestep t the value at the last True flag up to t; without a flag, 0.

    Args:
        values: int32 (batch, time) or (time,), which do not decrease over time.
        flags: bool (batch, time).
    """
    # Values with a False flag become a large number, which is sorted to the end. The other values
    # stay in order, because they do not decrease over time: the k-th of them has the index k - 1.
    at_flags = ops.sort(ops.where(flags, values, ops.shape(flags)[1] + 1), axis=1)
    k = ops.cumsum(ops.cast(flags, "int32"), axis=1)
    return ops.where(k > 0, gather_timesteps(at_flags, ops.maximum(k - 1, 0)), 0)
