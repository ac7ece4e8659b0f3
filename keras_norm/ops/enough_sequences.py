"""Timesteps with too few sequences use the batch statistics of an earlier timestep."""

from keras import ops

from keras_norm.ops.moments import Moments
from keras_norm.typing import Tensor

# A timestep needs at least 2 unmasked sequences for batch statistics: the variance of 1 is 0.
MIN_SEQUENCES = 2


def has_enough_sequences(count: Tensor, min_sequences: int) -> Tensor:
    """Return for each timestep whether it has enough unmasked sequences for batch statistics.

    ::

        n_t >= max(2, min(min_sequences, max(n_0, ..., n_t)))

    So a batch with fewer than `min_sequences` sequences has statistics until one of them ends.

    Args:
        count: n_t, the number of unmasked sequences at each timestep, floating, (time, 1).
        min_sequences: number of sequences that is always enough, an int.

    Returns:
        bool (time, 1).
    """
    levels = ops.arange(1, min_sequences + 1, dtype=count.dtype)
    reached = ops.cumsum(ops.cast(count >= levels, "int32"), axis=0) > 0
    least = ops.sum(ops.cast(reached, count.dtype), axis=1, keepdims=True)
    return count >= ops.maximum(least, float(MIN_SEQUENCES))


def replace_moments(m: Moments, enough: Tensor, mean: Tensor, variance: Tensor) -> Moments:
    """Set the mean and the variance of `m` to `mean` and `variance` where `enough` is False."""
    return Moments(
        ops.where(enough, m.centered, m.centered + (m.mean - mean)),
        ops.where(enough, m.mean, mean),
        ops.where(enough, m.variance, variance),
        m.count,
    )


def share_moments(m: Moments, min_sequences: int, *, axis: int) -> Moments:
    """Give a timestep with too few sequences the mean and variance of an earlier timestep.

    That is the last timestep before it that has enough. Without such a timestep, the moments stay.

    Args:
        m: moments of each timestep of a tensor of rank 3, over the other of the first two axes.
        min_sequences: number of sequences that is always enough, an int.
        axis: the time axis, 0 or 1.
    """
    enough = has_enough_sequences(ops.reshape(m.count, (-1, 1)), min_sequences)[:, 0]
    number = ops.cumsum(ops.cast(enough, "int32"))
    # `number[t]` is the count of timesteps 0...t with enough sequences. `number` first has the
    # value `number[t]` at the last timestep with enough sequences: `searchsorted` finds it.
    latest = ops.searchsorted(number, number, side="left")
    none_before = number == 0
    latest = ops.where(none_before, ops.arange(ops.shape(number)[0], dtype=latest.dtype), latest)
    mean, variance = (ops.take(s, latest, axis=axis) for s in (m.mean, m.variance))
    keep = ops.logical_or(enough, none_before)
    keep = ops.reshape(keep, (1, -1, 1) if axis == 1 else (-1, 1, 1))
    return replace_moments(m, keep, mean, variance)
