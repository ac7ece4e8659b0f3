"""Batch normalization of a step, forward and backward."""

import dataclasses
from typing import ClassVar

from keras import ops

from keras_norm.ops.replicas import sum_over_replicas
from keras_norm.typing import Tensor, Tensors

# Smallest number of unmasked sequences for the statistics of a timestep. The variance of a single
# sequence is 0.
MIN_SEQUENCES = 2


@dataclasses.dataclass(frozen=True)
class TimestepNorm:
    """Batch normalization over the sequences of a timestep.

    With `learning` it uses the statistics of the batch, as in training, else moving statistics.

    ::

        y = gamma * (a - mean) * r + beta        r = 1 / sqrt(v + epsilon)
        mean = sum(a) / n        v = sum((a - mean)^2) / n        over the n unmasked sequences

    With moving statistics, or with the statistics of the batch, the backward pass is::

        da = gamma * r * dy
        da = gamma * r * (dy - (sum(dy) + a' * sum(dy * a')) / n)        a' = (a - mean) * r

    The statistics of a timestep are [mean, r], each (..., 1, features), and with `learning` also v.
    With fewer than two unmasked sequences, mean and r are the moving statistics.

    Args:
        epsilon: number added to the variance.
        learning: whether to use the statistics of the batch.
        is_part: whether the batch is that of one replica. The statistics then have a fourth tensor,
            the mean of the batch, also with a single unmasked sequence.
        synchronized: whether the sums are over the sequences of all replicas. The gradients of
            gamma and beta are those of this replica.
    """

    epsilon: float
    learning: bool
    is_part: bool = False
    synchronized: bool = False

    per_batch: ClassVar = True

    def statistics(self, a: Tensor, unmasked: Tensor | None, moving: Tensors) -> Tensors:
        """Compute the statistics of `a` (..., batch, features).

        Args:
            a: tensor to normalize.
            unmasked: bool (..., batch, 1), or None.
            moving: moving mean and r, each (..., 1, features).
        """
        mean, r = moving
        if not self.learning:
            return [mean, r]
        total = ops.sum(_keep(a, unmasked), axis=-2, keepdims=True)
        n, total = self._add_replicas(_count(a, unmasked), total)
        share = 1.0 / ops.maximum(n, 1.0)
        batch_mean = share * total
        centered = _keep(a - batch_mean, unmasked)
        (squares,) = self._add_replicas(ops.sum(centered * centered, axis=-2, keepdims=True))
        v = share * squares
        enough = n >= MIN_SEQUENCES
        return [
            ops.where(enough, batch_mean, mean),
            ops.where(enough, ops.rsqrt(v + self.epsilon), r),
            v,
            *([batch_mean] if self.is_part else []),
        ]

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a` with its statistics, and multiply by gamma."""
        mean, r, *_ = statistics
        return (a - mean) * (r if gamma is None else r * gamma)

    def moments(self, statistics: Tensors) -> Tensors:
        """Return the mean and the variance of the batch."""
        mean, _, v, *batch_mean = statistics
        return [*(batch_mean or [mean]), v]

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `a`, gamma and beta; `dy` is zero at masked sequences."""
        mean, r, *_ = statistics
        normalized = (a - mean) * r
        d_gamma = ops.sum(dy * normalized, axis=-2, keepdims=True)
        d_beta = ops.sum(dy, axis=-2, keepdims=True)
        da = dy
        if self.learning:
            n, sum_dy, sum_of_products = self._add_replicas(_count(a, unmasked), d_beta, d_gamma)
            share = ops.where(n >= MIN_SEQUENCES, 1.0 / ops.maximum(n, 1.0), 0.0)
            da = _keep(dy - share * (sum_dy + normalized * sum_of_products), unmasked)
        return (r if gamma is None else r * gamma) * da, d_gamma, d_beta

    def _add_replicas(self, *sums: Tensor) -> Tensors:
        """Add up sums over the replicas in one collective, if the norm is synchronized."""
        return sum_over_replicas(*sums) if self.synchronized else list(sums)


def _count(a: Tensor, unmasked: Tensor | None) -> Tensor:
    """Count the unmasked sequences; the shape broadcasts to the statistics."""
    if unmasked is None:
        return ops.cast(ops.shape(a)[-2], a.dtype)
    return ops.sum(ops.cast(unmasked, a.dtype), axis=-2, keepdims=True)


def _keep(a: Tensor, unmasked: Tensor | None) -> Tensor:
    """Set masked sequences to zero."""
    return a if unmasked is None else ops.where(unmasked, a, ops.zeros_like(a))
