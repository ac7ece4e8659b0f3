"""The moving mean and variance of a batch normalization, and how one update moves them."""

from typing import Any

import keras
from keras import ops


def update_weight(momentum: float | None, debias: bool, n: Any) -> Any:
    """Weight w_n of the n-th batch statistic s_n in m_n = (1 - w_n) m_(n-1) + w_n s_n.

    ::

        exponential    w_n = 1 - momentum
        debiased       w_n = (1 - momentum) / (1 - momentum^n)
        cumulative     w_n = 1 / n

    The debiased m_n equals the exponential average started at 0 and divided by 1 - momentum^n
    (Kingma and Ba, "Adam" (2015), section 3), so what is stored is always ready for inference.

    Args:
        momentum: in [0, 1], or None for the cumulative average.
        debias: whether the exponential average is debiased.
        n: number of updates with this one, from 1 on; unused by the exponential average.
    """
    if momentum is None:
        return 1.0 / n
    if debias:
        return (1.0 - momentum) / (1.0 - ops.power(momentum, n))
    return 1.0 - momentum


class MovingStatistics:
    """Moving mean and variance that a layer owns: one row of them, or one for every timestep.

    Args:
        layer: the layer whose weights they become.
        shape: (features,), or (rows, features).
        momentum: see `update_weight`.
        debias: see `update_weight`.
        mean_initializer: initializer of the moving mean.
        variance_initializer: initializer of the moving variance.
        counted: whether updates are counted, which debiased and cumulative averages need.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        shape: tuple[int, ...],
        *,
        momentum: float | None,
        debias: bool,
        mean_initializer: Any,
        variance_initializer: Any,
        counted: bool,
    ) -> None:
        self.momentum = momentum
        self.debias = debias
        self.mean = layer.add_weight(
            name="moving_mean",
            shape=shape,
            initializer=mean_initializer,
            trainable=False,
            autocast=False,
        )
        self.variance = layer.add_weight(
            name="moving_variance",
            shape=shape,
            initializer=variance_initializer,
            trainable=False,
            autocast=False,
        )
        self.update_count: Any = None
        if counted:
            self.update_count = layer.add_weight(
                name="update_count",
                shape=shape[:-1],
                initializer="zeros",
                dtype="int32",
                trainable=False,
                autocast=False,
                aggregation="only_first_replica",
            )

    def update(self, mean: Any, variance: Any, valid: Any) -> None:
        """Move towards one batch's statistics, where they are valid.

        Args:
            mean: of the shape of the moving mean.
            variance: of the shape of the moving variance.
            valid: bool (), or (rows,); False leaves a row, and its count, as it was.
        """
        dtype = mean.dtype
        if self.update_count is None:
            w = update_weight(self.momentum, self.debias, None)
        else:
            n = self.update_count + 1
            w = update_weight(self.momentum, self.debias, ops.cast(n, dtype))
            self.update_count.assign(ops.where(valid, n, self.update_count))
        w = ops.where(valid, ops.cast(w, dtype), ops.cast(0.0, dtype))[..., None]
        for moving, batch in ((self.mean, mean), (self.variance, variance)):
            moving.assign(ops.cast((1.0 - w) * ops.cast(moving, dtype) + w * batch, moving.dtype))

    def update_steps(self, mean: Any, variance: Any, valid: Any, first: Any = 0) -> None:
        """Move each row towards the statistics of its timesteps, in one update a row.

        Timestep t belongs to row t, and every later one to the last row. A row with several
        timesteps moves towards the mean of their statistics.

        Args:
            mean: (time, features).
            variance: (time, features).
            valid: bool (time,) or (1,), which timesteps count.
            first: the first of these timesteps.
        """
        rows = self.mean.shape[0] if len(self.mean.shape) == 2 else 1
        row = ops.minimum(first + ops.arange(ops.shape(mean)[0]), rows - 1)
        counted = ops.cast(valid, mean.dtype) * ops.ones_like(mean[:, 0])

        def total(per_step: Any) -> Any:
            per_row = ops.segment_sum(per_step, row, num_segments=rows)
            return per_row if len(self.mean.shape) == 2 else per_row[0]

        n = total(counted)
        share = 1.0 / ops.maximum(n, 1.0)[..., None]
        self.update(
            total(mean * counted[:, None]) * share,
            total(variance * counted[:, None]) * share,
            n > 0,
        )

    def at(self, steps: Any, dtype: Any) -> tuple[Any, Any]:
        """The statistics that stand for given timesteps at inference.

        Timestep t reads row min(t, last row), or, where training never reached that row, the
        nearest row before it that training reached, or else the first one after it.

        Args:
            steps: int (time,), from 0 on.
            dtype: dtype of the result.

        Returns:
            Moving mean and variance, each (time, features).
        """
        mean, variance = ops.cast(self.mean, dtype), ops.cast(self.variance, dtype)
        if len(self.mean.shape) == 1:
            shape = (ops.shape(steps)[0], self.mean.shape[0])
            return ops.broadcast_to(mean, shape), ops.broadcast_to(variance, shape)
        rows = self.mean.shape[0]
        row = ops.take(self._reached_rows(), ops.minimum(steps, rows - 1))
        return ops.take(mean, row, axis=0), ops.take(variance, row, axis=0)

    def _reached_rows(self) -> Any:
        """For every row, the row that training reached and that stands for it."""
        rows = self.mean.shape[0]
        row = ops.arange(rows)
        reached = self.update_count > 0
        before = ops.logical_and(reached[None, :], row[None, :] <= row[:, None])
        last_before = ops.max(ops.where(before, row[None, :], -1), axis=1)
        first = ops.min(ops.where(reached, row, rows - 1))
        return ops.where(last_before < 0, first, last_before)
