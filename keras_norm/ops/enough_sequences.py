"""Timesteps with too few sequences use the batch statistics of an earlier timestep."""

from keras import ops

from keras_norm.typing import Tensor

# A timestep needs at least 2 unmasked sequences for batch statistics: with a single sequence, the
# variance is 0.
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


def latest_with_enough(enough: Tensor) -> Tensor:
    """Return for each timestep t the index of the last timestep <= t with enough sequences.

    If no timestep <= t has enough sequences, the index is t.

    Args:
        enough: result of `has_enough_sequences`.

    Returns:
        int (time,).
    """
    number = ops.cumsum(ops.cast(enough[:, 0], "int32"))
    # `number[t]` is the count of timesteps from 0 to t that have enough sequences. The count
    # increases only at such timesteps. `searchsorted` finds the first index with an equal count:
    # the timestep of the last increase.
    latest = ops.searchsorted(number, number, side="left")
    own = ops.arange(ops.shape(number)[0], dtype=latest.dtype)
    return ops.where(number == 0, own, latest)
