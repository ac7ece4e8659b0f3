"""What the batch normalizations share: batch statistics in training, moving ones at inference."""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import initializers, ops

from keras_norm.layers.affine import AffineNormalization
from keras_norm.layers.moving_statistics import MovingStatistics
from keras_norm.layers.renorm import Renorm
from keras_norm.ops.moments import identity, moments, statistics_dtype
from keras_norm.ops.normalize import normalize


class BatchStatistics(NamedTuple):
    """What one batch tells the moving statistics; the reduced axes are kept at size one."""

    mean: Any
    variance: Any
    valid: Any


class StatisticsNormalization(AffineNormalization):
    """Base of the layers that normalize with the batch in training and with averages at inference.

    Arguments, and what is raised, are those of `BatchNormalization`.
    """

    def __init__(
        self,
        *,
        momentum: float | None,
        debias: bool,
        unbiased_variance: bool = False,
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if momentum is not None and not 0.0 <= momentum <= 1.0:
            raise ValueError(
                "momentum must be within [0, 1], or None for the average of all batches. "
                f"Received: momentum={momentum}."
            )
        if debias and momentum == 1.0:
            raise ValueError(
                "debias=True needs momentum below 1: statistics that never move have no bias to "
                "remove. Received: momentum=1.0."
            )
        self.momentum = momentum
        self.debias = debias
        self.unbiased_variance = unbiased_variance
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)

    def add_statistic(
        self, name: str, shape: tuple[int, ...], initializer: Any, dtype: str | None = None
    ) -> Any:
        """Create a weight that batches move, and gradients do not."""
        # A mean of many float16 or bfloat16 batches needs more digits than they have.
        dtype = dtype or statistics_dtype(self.variable_dtype)
        return self.add_weight(
            shape, initializer, dtype, trainable=False, autocast=False, name=name
        )

    def add_statistics(self, shape: tuple[int, ...], counted: bool = False) -> None:
        """Create the moving statistics, of shape (features,) or (rows, features)."""
        counted = counted or self.debias or self.momentum is None
        self.statistics = MovingStatistics(self, shape, counted)
        self.moving_mean = self.statistics.mean
        self.moving_variance = self.statistics.variance
        self.update_count = self.statistics.update_count

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
        renorm: Renorm | None = None,
        fewest: int = 1,
        dtype: str | None = None,
    ) -> tuple[Any, BatchStatistics]:
        """Normalize with the batch's own statistics, as training does.

        Args:
            x: floating tensor with features at `axis`.
            axis: the feature axis.
            reduced: axes that the statistics are taken over.
            moving: mean and variance that serve where fewer than `fewest` positions count.
            mask: bool, broadcasts to `x`, or None.
            all_reduce: sums over replicas.
            renorm: corrects gamma and beta, or None.
            fewest: positions that statistics need.
            dtype: of the result; None for the layer's own.

        Returns:
            The normalized tensor, and the statistics to move towards.
        """
        m = moments(x, reduced, mask, all_reduce, fewest, moving)
        affine = self.affine_weights(len(x.shape), [axis])
        if renorm is not None:
            affine = renorm.correct(self, affine, m.mean, m.variance)
        y = normalize(m.centred, m.variance, self.epsilon, **affine)
        batch = self.batch_statistics(m.mean, m.variance, m.count, fewest)
        return ops.cast(y, dtype or self.compute_dtype), batch

    def normalize_fused(
        self,
        x: Any,
        kept: int = 1,
        fewest: int = 1,
        moving: tuple[Any, Any] | None = None,
    ) -> tuple[Any, BatchStatistics]:
        """`normalize_batch` by a fused kernel, where `kernels.has_batch_norm`.

        Arguments are those of `ops.tensorflow_batch_norm.normalize_batch`.
        """
        from keras_norm.ops.tensorflow_batch_norm import normalize_batch

        y, mean, variance, count = normalize_batch(
            x, self.gamma, self.beta, self.epsilon, kept, fewest, moving
        )
        batch = self.batch_statistics(mean, variance, count, fewest)
        return ops.cast(y, self.compute_dtype), batch

    def batch_statistics(
        self, mean: Any, variance: Any, count: Any, fewest: int
    ) -> BatchStatistics:
        """What the moving statistics move towards: those of a batch of `count` positions."""
        unbias = count / ops.maximum(count - 1.0, 1.0) if self.unbiased_variance else 1.0
        return BatchStatistics(
            ops.stop_gradient(mean), ops.stop_gradient(variance * unbias), count >= fewest
        )
