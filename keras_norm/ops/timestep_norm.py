"""Batch normalization of one timestep: the forward pass and the gradients."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from keras import ops

from keras_norm.ops.enough_sequences import MIN_SEQUENCES, latest_with_enough
from keras_norm.ops.replicas import sum_over_replicas
from keras_norm.typing import Tensor, Tensors


@dataclasses.dataclass(frozen=True)
class TimestepNorm:
    """Normalize each feature over the sequences of a batch, separately at each timestep.

    With `learning` it uses the statistics of the batch, as in training, else moving statistics.

    ::

        y = gamma * (a - mean) * r + beta        r = 1 / sqrt(v + epsilon)
        mean = sum(a) / n        v = sum((a - mean)^2) / n        over the n unmasked sequences

    With moving statistics, or with the statistics of the batch, the backward pass is::

        da = gamma * r * dy
        da = gamma * r * (dy - (sum(dy) + a' * sum(dy * a')) / n)        a' = (a - mean) * r

    With the statistics of the batch, a timestep without enough sequences uses mean and r of the
    last timestep before it that had enough, or else the moving statistics. The sums of the backward
    pass are over all timesteps that use mean and r; n belongs to the timestep that computed them.

    The statistics of a timestep are [mean, r], each (..., 1, features). With `learning` they are
    [mean, r, mean of this timestep, v of this timestep, share], where share is 1 / n, or 0 without
    enough sequences.

    Args:
        epsilon: number added to the variance.
        learning: whether to use the statistics of the batch.
        synchronized: whether the sums are over the sequences of all replicas. The gradients of
            gamma and beta are those of this replica.
    """

    epsilon: float
    learning: bool
    synchronized: bool = False

    per_batch: ClassVar = True

    def statistics(self, a: Tensor, unmasked: Tensor | None, moving: Tensors) -> Tensors:
        """Return the batch statistics or moving statistics that normalize `a`.

        Args:
            a: tensor to normalize, (batch, features), or (time, batch, features) to normalize all
                timesteps at once. A timestep without enough sequences then uses the statistics of
                the last timestep before it that had enough, if any.
            unmasked: bool (..., batch, 1), or None.
            moving: mean and r, each (..., 1, features), to use without enough sequences. A third
                tensor says whether there are enough, bool (..., 1, 1). Without it two are enough.
        """
        mean, r, *given = moving
        if not self.learning:
            return [mean, r]
        total = ops.sum(_zero_masked(a, unmasked), axis=-2, keepdims=True)
        n, total = self._add_replicas(_count(a, unmasked), total)
        share = 1.0 / ops.maximum(n, 1.0)
        batch_mean = share * total
        centered = _zero_masked(a - batch_mean, unmasked)
        (squares,) = self._add_replicas(ops.sum(centered * centered, axis=-2, keepdims=True))
        v = share * squares
        enough = given[0] if given else n >= MIN_SEQUENCES
        # With too few sequences the variance v may be 0. With epsilon=0 the derivative of `rsqrt`
        # would then be infinite. So with epsilon=0 and too few sequences, replace v by 1.
        positive = v if self.epsilon else ops.where(enough, v, 1.0)
        mean = ops.where(enough, batch_mean, mean)
        r = ops.where(enough, ops.rsqrt(positive + self.epsilon), r)
        if given and len(a.shape) == 3:
            latest = latest_with_enough(enough[:, 0])
            mean, r = (ops.take(s, latest, axis=0) for s in (mean, r))
        return [mean, r, batch_mean, v, ops.where(enough, share, 0.0)]

    def apply(self, a: Tensor, statistics: Tensors, gamma: Tensor | None) -> Tensor:
        """Normalize `a` with its statistics, and multiply by gamma."""
        mean, r, *_ = statistics
        return (a - mean) * (r if gamma is None else r * gamma)

    def moments(self, statistics: Tensors) -> Tensors:
        """Return the mean and the variance of the batch from the result of `statistics`."""
        _, _, mean, v, _ = statistics
        return [mean, v]

    def update_latest(self, latest: Tensors, statistics: Tensors) -> Tensors:
        """Return the statistics of the latest timestep with enough sequences, up to this one."""
        mean, r, _, _, share = statistics
        return [mean, r, ops.maximum(latest[2], share)]

    def backward(
        self,
        a: Tensor,
        dy: Tensor,
        statistics: Tensors,
        gamma: Tensor | None,
        unmasked: Tensor | None,
        later: Sequence[Tensor] = (0.0, 0.0),
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of `a`, gamma and beta; `dy` is zero at masked sequences.

        `later` has the sums of `sums_before` over the later timesteps that use these statistics.
        """
        mean, r, *others = statistics
        normalized = (a - mean) * r
        d_gamma = ops.sum(dy * normalized, axis=-2, keepdims=True)
        d_beta = ops.sum(dy, axis=-2, keepdims=True)
        da = dy
        if self.learning:
            sum_dy, sum_of_products = self._add_replicas(d_beta + later[0], d_gamma + later[1])
            da = _zero_masked(dy - others[-1] * (sum_dy + normalized * sum_of_products), unmasked)
        return (r if gamma is None else r * gamma) * da, d_gamma, d_beta

    def sums_before(
        self, statistics: Tensors, d_gamma: Tensor, d_beta: Tensor, later: Tensors
    ) -> Tensors:
        """Return gradient sums for the earlier timestep whose mean and r this timestep uses.

        They are the sums of dy and dy * a' in the equations of `TimestepNorm`. The backward pass of
        the earlier timestep adds them to its own sums. They are 0 if this timestep computed mean
        and r itself.
        """
        sums = d_beta + later[0], d_gamma + later[1]
        return [ops.where(statistics[-1] > 0, 0.0, s) for s in sums]

    def _add_replicas(self, *sums: Tensor) -> Tensors:
        """With `synchronized`, add up each tensor over the replicas; else return the tensors."""
        return sum_over_replicas(*sums) if self.synchronized else list(sums)


def first_latest(width: int, dtype: str) -> Tensors:
    """Return zeros for timestep 0, which has no statistics of an earlier timestep."""
    return [ops.zeros((1, n), dtype) for n in (width, width, 1)]


def with_latest(moving: Tensors, latest: Tensors) -> Tensors:
    """Choose the mean and r for a timestep with too few sequences.

    They come from the last timestep with enough sequences. If there is no such timestep, they are
    the moving statistics.

    Args:
        moving: two moving statistics, and whether this timestep has enough sequences.
        latest: two statistics of the last timestep with enough sequences, and a number: above 0 if
            there is such a timestep.
    """
    *statistics, found = latest
    both = zip(statistics, moving[:2], strict=True)
    return [*(ops.where(found > 0, x, y) for x, y in both), moving[2]]


def _count(a: Tensor, unmasked: Tensor | None) -> Tensor:
    """Count the unmasked sequences of a batch, in a shape that broadcasts to the statistics."""
    if unmasked is None:
        return ops.cast(ops.shape(a)[-2], a.dtype)
    return ops.sum(ops.cast(unmasked, a.dtype), axis=-2, keepdims=True)


def _zero_masked(a: Tensor, unmasked: Tensor | None) -> Tensor:
    """Set masked sequences to zero."""
    return a if unmasked is None else ops.where(unmasked, a, ops.zeros_like(a))
