"""What the batch normalizations share: batch statistics in training, moving ones at inference."""

import math
from collections.abc import Callable
from typing import Any

from keras import initializers, ops

from keras_norm.layers.affine import AffineNormalization
from keras_norm.layers.renorm import renormalized
from keras_norm.ops import kernels
from keras_norm.ops.moments import identity, moments, statistics_dtype
from keras_norm.ops.normalize import normalize


class StatisticsNormalization(AffineNormalization):
    """Base of the layers that normalize with the batch in training and with averages at inference.

    They keep a moving mean and variance: a row of them, or several. Arguments, and what is raised,
    are those of `BatchNormalization`.
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
        """Create the moving statistics, of shape (features,) or (rows, features).

        Updates are `counted` in any case where the average is debiased or cumulative.
        """
        add = self.add_statistic
        self.moving_mean = add("moving_mean", shape, self.moving_mean_initializer)
        self.moving_variance = add("moving_variance", shape, self.moving_variance_initializer)
        self.update_count: Any = None
        if counted or self.debias or self.momentum is None:
            self.update_count = add("update_count", shape[:-1], "zeros", "int32")

    def update_weight(self, n: Any, dtype: str) -> Any:
        """Weight w_n of the n-th batch statistic s_n in m_n = (1 - w_n) m_(n-1) + w_n s_n.

        ::

            exponential    w_n = 1 - momentum
            debiased       w_n = (1 - momentum) / (1 - momentum^n)
            cumulative     w_n = 1 / n

        The debiased m_n equals the exponential average started at 0 and divided by 1 - momentum^n
        (Kingma and Ba, "Adam" (2015), section 3), so what is stored is always ready for inference.

        Args:
            n: number of updates with this one, from 1 on; unused by the exponential average.
            dtype: dtype of the result.
        """
        if self.momentum is None:
            return 1.0 / ops.cast(n, dtype)
        w = ops.convert_to_tensor(1.0 - self.momentum, dtype)
        if self.debias and self.momentum > 0.0:
            # 1 - momentum^n would cancel where momentum is close to 1.
            log = ops.convert_to_tensor(math.log(self.momentum), dtype)
            return w / -ops.expm1(ops.cast(n, dtype) * log)
        return w

    @staticmethod
    def move(average: Any, batch: Any, weight: Any, valid: Any) -> None:
        """Give a batch's statistic its weight in an average, where `valid`."""
        before = ops.cast(average, batch.dtype)
        after = ops.where(valid, (1.0 - weight) * before + weight * batch, before)
        average.assign(ops.cast(after, average.dtype))

    def update_statistics(self, mean: Any, variance: Any, count: Any) -> None:
        """Move towards one batch's statistics, where there are any.

        Args:
            mean: broadcasts to the moving mean.
            variance: broadcasts to the moving variance.
            count: of their rank, the positions of each; 0 leaves a statistic as it was.

        Raises:
            ValueError: an average that counts its updates, wanted when none are counted any more.
        """
        n, valid = None, count > 0
        if self.update_count is not None:
            before = ops.convert_to_tensor(self.update_count)
            n = before + 1
            self.update_count.assign(ops.where(ops.any(valid, axis=-1), n, before))
            n = ops.expand_dims(n, -1)
        elif self.momentum is None or self.debias:
            raise ValueError(
                f"{self.name} was built without a count of its updates, which momentum=None "
                "and debias=True need. Give them when the layer is made. "
                f"Received: momentum={self.momentum}, debias={self.debias}."
            )
        w = self.update_weight(n, mean.dtype)
        for moving, batch in ((self.moving_mean, mean), (self.moving_variance, variance)):
            self.move(moving, batch, w, valid)

    def update_steps(self, mean: Any, variance: Any, count: Any) -> None:
        """Move each row towards the statistics of its timesteps, in one update a row.

        Timestep t belongs to row t, and every later one to the last row. A row with several
        timesteps moves towards the mean of their statistics.

        Args:
            mean: (time, features).
            variance: (time, features).
            count: of rank 2, broadcasts to them, the positions of each timestep.
        """
        count = ops.broadcast_to(count, (ops.shape(mean)[0], count.shape[1]))
        valid = count > 0
        n = self.total_by_row(ops.cast(valid, mean.dtype))
        mean, variance = (
            self.total_by_row(ops.where(valid, s, 0.0)) / ops.maximum(n, 1.0)
            for s in (mean, variance)
        )
        self.update_statistics(mean, variance, self.total_by_row(count))

    def total_by_row(self, per_step: Any) -> Any:
        """Sum (time, features) over the timesteps of each row."""
        per_timestep = len(self.moving_mean.shape) == 2
        last = self.moving_mean.shape[0] - 1 if per_timestep else 0
        time = ops.shape(per_step)[0]
        missing = max(last - time, 0) if isinstance(time, int) else ops.maximum(last - time, 0)
        rows = [
            per_step[:last],
            ops.zeros((missing, per_step.shape[1]), per_step.dtype),
            ops.sum(per_step[last:], axis=0, keepdims=True),
        ]
        by_row = ops.concatenate(rows, axis=0)
        return by_row if per_timestep else by_row[0]

    def statistics_at(self, steps: Any, dtype: Any) -> tuple[Any, Any]:
        """The statistics that stand for given timesteps at inference.

        Timestep t reads row min(t, last row), or, where training never reached that row, the
        nearest row before it that training reached, or else the first one after it.

        Args:
            steps: int (time,), from 0 on.
            dtype: dtype of the result.

        Returns:
            Moving mean and variance, each (time, features).
        """
        mean, variance = ops.cast(self.moving_mean, dtype), ops.cast(self.moving_variance, dtype)
        if len(self.moving_mean.shape) == 1:
            shape = (ops.shape(steps)[0], self.moving_mean.shape[0])
            return ops.broadcast_to(mean, shape), ops.broadcast_to(variance, shape)
        rows = ops.arange(self.moving_mean.shape[0])
        reached = self.update_count > 0
        before = ops.logical_and(reached, rows <= ops.expand_dims(steps, -1))
        last_before = ops.max(ops.where(before, rows, -1), axis=1)
        first = ops.cast(ops.argmax(ops.cast(reached, "int32")), rows.dtype)
        row = ops.where(last_before < 0, first, last_before)
        return ops.take(mean, row, axis=0), ops.take(variance, row, axis=0)

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
        fused: bool = False,
    ) -> tuple[Any, tuple[Any, Any, Any]]:
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
            fused: whether a kernel may do it, where there is one. A loop would wait at every
                timestep for it to start.

        Returns:
            The tensor, in the dtype of its statistics, and the `batch_statistics` to move towards.
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
        return y, self.batch_statistics(mean, variance, count, fewest)

    def batch_statistics(
        self, mean: Any, variance: Any, count: Any, fewest: int
    ) -> tuple[Any, Any, Any]:
        """What a batch of `count` positions moves mean and variance towards, and the count.

        It is 0 where there are too few for statistics. The shapes broadcast to each other.
        """
        unbias = count / ops.maximum(count - 1.0, 1.0) if self.unbiased_variance else 1.0
        count = ops.where(count >= fewest, count, 0.0)
        return ops.stop_gradient(mean), ops.stop_gradient(variance * unbias), count
