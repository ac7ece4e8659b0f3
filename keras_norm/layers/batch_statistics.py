"""What the batch normalizations share: batch statistics in training, moving ones at inference."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_norm.layers.moving_statistics import MovingStatistics
from keras_norm.layers.renorm import renormalized
from keras_norm.ops import kernels
from keras_norm.ops.moments import identity, moments, statistics_dtype
from keras_norm.ops.normalize import normalize


class BatchStatistics(NamedTuple):
    """What one batch tells the moving statistics, in shapes that broadcast to each other.

    `count` are the positions that they are of, 0 where there are too few for statistics.
    """

    mean: Any
    variance: Any
    count: Any


class StatisticsNormalization(MovingStatistics):
    """Base of the layers that normalize with the batch in training and with averages at inference.

    Arguments, and what is raised, are those of `BatchNormalization`.
    """

    def __init__(self, *, unbiased_variance: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unbiased_variance = unbiased_variance

    def normalize_moving(self, x: Any, axis: int, mean: Any, variance: Any) -> Any:
        """Normalize with given statistics, which broadcast to `x`, as inference does."""
        x = ops.cast(x, statistics_dtype(x.dtype))
        affine = self.affine_weights(len(x.shape), [axis])
        y = normalize(x - mean, variance, self.epsilon, **affine)
        return ops.cast(y, self.compute_dtype)

    def normalize_batch(
        self,
        x: Any,
        axis: int,
        reduced: list[int],
        moving: tuple[Any, Any],
        mask: Any = None,
        all_reduce: Callable[[Any], Any] = identity,
        renorm: bool = False,
        fewest: int = 1,
        dtype: str | None = None,
        fused: bool = False,
    ) -> tuple[Any, BatchStatistics]:
        """Normalize with the batch's own statistics, as training does.

        Args:
            x: floating tensor with features at `axis`.
            axis: the feature axis.
            reduced: axes that the statistics are taken over.
            moving: mean and variance that serve where fewer than `fewest` positions count.
            mask: bool, broadcasts to `x`, or None.
            all_reduce: sums over replicas.
            renorm: whether slow averages correct gamma and beta.
            fewest: positions that statistics need.
            dtype: of the result; None for the layer's own.
            fused: whether a kernel may do it, where there is one. A loop would wait at every
                timestep for it to start.

        Returns:
            The normalized tensor, and the statistics to move towards.
        """
        plain = mask is None and all_reduce is identity and not renorm
        leading = reduced == list(range(len(reduced)))
        if fused and plain and leading and kernels.has_batch_norm(x, axis, "training"):
            from keras_norm.ops.tensorflow_batch_norm import normalize_batch

            kept = len(x.shape) - len(reduced)
            surely = fewest < 2 or (x.shape[0] is not None and x.shape[0] >= fewest)
            given = self.gamma, self.beta, self.epsilon, kept, fewest
            y, mean, variance, count = normalize_batch(x, *given, None if surely else moving)
        else:
            m = moments(x, reduced, mask, all_reduce, fewest, moving)
            mean, variance, count = m.mean, m.variance, m.count
            affine = self.affine_weights(len(x.shape), [axis])
            if renorm:
                affine = renormalized(self, affine, mean, variance)
            y = normalize(m.centred, variance, self.epsilon, **affine)
        batch = self.batch_statistics(mean, variance, count, fewest)
        return ops.cast(y, dtype or self.compute_dtype), batch

    def batch_statistics(
        self, mean: Any, variance: Any, count: Any, fewest: int
    ) -> BatchStatistics:
        """What the moving statistics move towards: those of a batch of `count` positions."""
        unbias = count / ops.maximum(count - 1.0, 1.0) if self.unbiased_variance else 1.0
        count = ops.where(count >= fewest, count, 0.0)
        return BatchStatistics(ops.stop_gradient(mean), ops.stop_gradient(variance * unbias), count)
