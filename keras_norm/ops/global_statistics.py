"""Merge the batch statistics of all replicas to the statistics of the global batch."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from keras import ops

from keras_norm.ops.enough_sequences import has_enough_sequences
from keras_norm.ops.replicas import (
    count_replicas,
    is_in_loop,
    max_over_replicas,
    sum_over_replicas,
)
from keras_norm.typing import Tensor

LOCAL_WARNING = (
    "Layer {name!r} is called inside a loop (such as keras.layers.RNN), a conditional or a "
    "tf.function. So it updates its moving statistics with the batch of its own replica: the "
    "statistics of the replicas differ, and only those of the first replica are saved. Use a layer "
    "such as BatchNormLSTM, or call keras_norm.recalibrate after the training."
)

TINY = 1e-30  # `TINY` avoids a division by zero if two empty batches are merged


class BatchStatistics(NamedTuple):
    """Mean, biased variance and number of unmasked values of a batch, for the moving statistics.

    Statistics of several timesteps have the shape (time, features).
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def at_least(self, min_count: int) -> "BatchStatistics":
        """Set counts below `min_count` to 0: moving statistics ignore a batch with a count of 0."""
        return self._replace(count=ops.where(self.count >= min_count, self.count, 0.0))

    def of_enough_sequences(self, min_sequences: int) -> "BatchStatistics":
        """Set the count of a timestep with few sequences to 0: moving statistics ignore it then."""
        enough = has_enough_sequences(self.count, min_sequences)
        return self._replace(count=ops.where(enough, self.count, 0.0))

    def with_single_value(
        self, x: Tensor, mask: Tensor | None, axes: Sequence[int]
    ) -> "BatchStatistics":
        """If the count is 1, set the mean to the only unmasked value, and the variance to 0.

        A layer may normalize a single value with the moving mean and variance. The merge with the
        batches of other replicas needs the mean and variance of the value itself.

        Args:
            x: the tensor with these statistics over `axes`, which have size 1 in the statistics.
            mask: bool tensor that broadcasts to `x`, or None.
            axes: the reduced axes.
        """
        unmasked = x if mask is None else ops.where(mask, x, ops.zeros_like(x))
        of_one = ops.cast(ops.sum(unmasked, axes, keepdims=True), self.mean.dtype)
        is_one = self.count == 1
        mean = ops.where(is_one, ops.stop_gradient(of_one), self.mean)
        return self._replace(mean=mean, variance=ops.where(is_one, 0.0, self.variance))

    def merge(self, other: "BatchStatistics") -> "BatchStatistics":
        """Merge the statistics of this batch with the statistics of the batch `other`.

        ::

            share = n / (N + n)        d = m - mean
            mean += share * d          variance += share * (v - variance + (1 - share) * d^2)

        N, mean and variance belong to this batch, and n, m and v to `other`, whose statistics
        broadcast to the shapes of these. (Chan, Golub and LeVeque 1983, "Algorithms for computing
        the sample variance".)
        """
        (mean, variance, count), (m, v, n) = self, other
        share = n / (count + n + TINY)
        d = m - mean
        spread = v - variance + (1.0 - share) * d * d
        return BatchStatistics(mean + share * d, variance + share * spread, count + n)

    def merge_timesteps(self) -> "BatchStatistics":
        """Merge the statistics of all timesteps to one mean and one variance, (1, features).

        ::

            N = sum(n)        s = sum(n m) / N        r = sum(n (m - s)) / N        mean = s + r
            variance = sum(n (v + (m - s)^2)) / N - r^2

        `r` corrects the rounding error of `s`, as in `keras_norm.ops.moments`. The mean and the
        variance must be finite at timesteps with a count of 0 too. If all counts are 0, they are 0.
        """
        n = _total(self.count)
        share = self.count / ops.maximum(n, 1.0)
        s = _total(share * self.mean)
        d = self.mean - s
        r = _total(share * d)
        variance = _total(share * (self.variance + d * d)) - r * r
        return BatchStatistics(s + r, ops.maximum(variance, 0.0), n)

    def unbiased(self) -> "BatchStatistics":
        """Return the statistics with the unbiased variance: its divisor is n - 1 in place of n."""
        n = self.count
        return self._replace(variance=self.variance * (n / ops.maximum(n - 1.0, 1.0)))


def adds_over_replicas(name: str) -> bool:
    """Return whether a layer can sum batch statistics over replicas; warn if a loop prevents it.

    Args:
        name: name of the layer.
    """
    if count_replicas() == 1:
        return False
    if is_in_loop():
        warnings.warn(LOCAL_WARNING.format(name=name), stacklevel=2)
        return False
    return True


def global_statistics(
    batches: Sequence[BatchStatistics], *, name: str, per_timestep: bool
) -> Sequence[BatchStatistics]:
    """Compute the statistics of the global batch from the batch statistics of each replica.

    ::

        N = sum(n)        mean = sum(n * m) / N        variance = sum(n * (v + m^2)) / N - mean^2

    with n, m and v of each replica, summed in float64 in one collective. The difference of the two
    terms of the variance loses digits if the mean is large, but fewer digits than float32 inputs
    have lost: a mean of 1e6 standard deviations costs a relative error of 1e-4. Layers with the
    dtype float64 lose these digits too. A replica with a count of 0 changes nothing. On one device
    `batches` are returned.

    Args:
        batches: statistics, in equal order on all replicas; without gradients.
        name: name of the layer.
        per_timestep: whether the first axis is time. The replicas may have different numbers of
            timesteps: the results have the largest number.
    """
    if not batches or not adds_over_replicas(name):
        return batches
    if per_timestep:
        time = ops.shape(batches[0].mean)[0]
        missing = max_over_replicas(time) - time
        batches = [
            BatchStatistics(_pad(mean, missing), _pad(variance, missing), _pad(count, missing))
            for mean, variance, n in batches
            for count in [ops.broadcast_to(n, (time, n.shape[1]))]
        ]
    terms = []
    for batch in batches:
        mean, variance, n = (ops.cast(s, "float64") for s in batch)
        # Replace NaN, which TensorFlow's fused kernel returns as statistics of an empty batch.
        mean, variance = (ops.where(n > 0, s, 0.0) for s in (mean, variance))
        terms += [n, n * mean, n * (variance + mean * mean)]
    sums, merged = iter(sum_over_replicas(*terms)), []
    for batch in batches:
        n, of_mean, of_square = next(sums), next(sums), next(sums)
        share = 1.0 / ops.maximum(n, 1.0)
        mean = of_mean * share
        variance = ops.maximum(of_square * share - mean * mean, 0.0)
        dtypes = (s.dtype for s in batch)
        new = (ops.cast(s, d) for s, d in zip((mean, variance, n), dtypes, strict=True))
        merged.append(BatchStatistics(*new))
    return merged


def _total(statistic: Tensor) -> Tensor:
    return ops.sum(statistic, axis=0, keepdims=True)


def _pad(statistic: Tensor, missing: int | Tensor) -> Tensor:
    """Append `missing` timesteps of zeros to a statistic (time, features)."""
    zeros = ops.zeros((missing, *statistic.shape[1:]), statistic.dtype)
    return ops.concatenate([statistic, zeros])
