"""The moving mean and variance of a batch normalization, and how one update moves them."""

import math
from typing import Any

from keras import ops


def update_weight(momentum: float | None, debias: bool, n: Any, dtype: str) -> Any:
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
        dtype: dtype of the result.
    """
    if momentum is None:
        return 1.0 / ops.cast(n, dtype)
    w = ops.convert_to_tensor(1.0 - momentum, dtype)
    if debias and momentum > 0.0:
        # 1 - momentum^n would cancel where momentum is close to 1.
        log = ops.convert_to_tensor(math.log(momentum), dtype)
        return w / -ops.expm1(ops.cast(n, dtype) * log)
    return w


class MovingStatistics:
    """Moving mean and variance that a layer owns: one row of them, or one for every timestep.

    Args:
        layer: the layer whose weights they become; its `momentum` and `debias` say how they move.
        shape: (features,), or (rows, features).
        counted: whether updates are counted, which debiased and cumulative averages need.
    """

    def __init__(self, layer: Any, shape: tuple[int, ...], counted: bool) -> None:
        add = layer.add_statistic
        self.layer = layer
        self.mean = add("moving_mean", shape, layer.moving_mean_initializer)
        self.variance = add("moving_variance", shape, layer.moving_variance_initializer)
        self.update_count: Any = None
        if counted:
            self.update_count = add("update_count", shape[:-1], "zeros", "int32")

    def update(self, mean: Any, variance: Any, valid: Any) -> None:
        """Move towards one batch's statistics, where they are valid.

        Args:
            mean: broadcasts to the moving mean.
            variance: broadcasts to the moving variance.
            valid: bool of their rank, that broadcasts to them; False leaves a statistic as it was.

        Raises:
            ValueError: an average that counts its updates, wanted when none are counted any more.
        """
        n = None
        if self.update_count is not None:
            count = ops.convert_to_tensor(self.update_count)
            n = count + 1
            self.update_count.assign(ops.where(ops.any(valid, axis=-1), n, count))
            n = ops.expand_dims(n, -1)
        elif self.layer.momentum is None or self.layer.debias:
            raise ValueError(
                f"{self.layer.name} was built without a count of its updates, which momentum=None "
                "and debias=True need. Give them when the layer is made. "
                f"Received: momentum={self.layer.momentum}, debias={self.layer.debias}."
            )
        w = update_weight(self.layer.momentum, self.layer.debias, n, mean.dtype)
        for moving, batch in ((self.mean, mean), (self.variance, variance)):
            before = ops.cast(moving, batch.dtype)
            after = ops.where(valid, (1.0 - w) * before + w * batch, before)
            moving.assign(ops.cast(after, moving.dtype))

    def update_step(self, mean: Any, variance: Any, valid: Any, step: Any) -> None:
        """Move the row of one timestep, the last row for a timestep beyond it.

        Args:
            mean: (1, features).
            variance: (1, features).
            valid: bool (1, 1), whether the timestep counts.
            step: int, from 0 on.
        """
        rows = self.mean.shape[0]
        row = ops.expand_dims(ops.arange(rows), -1)
        self.update(mean, variance, ops.logical_and(valid, row == ops.minimum(step, rows - 1)))

    def update_steps(self, mean: Any, variance: Any, valid: Any) -> None:
        """Move each row towards the statistics of its timesteps, in one update a row.

        Timestep t belongs to row t, and every later one to the last row. A row with several
        timesteps moves towards the mean of their statistics.

        Args:
            mean: (time, features).
            variance: (time, features).
            valid: bool of rank 2 that broadcasts to them, which timesteps count.
        """
        valid = ops.broadcast_to(valid, (ops.shape(mean)[0], valid.shape[1]))
        n = self.total_by_row(ops.cast(valid, mean.dtype))
        mean, variance = (
            self.total_by_row(ops.where(valid, s, 0.0)) / ops.maximum(n, 1.0)
            for s in (mean, variance)
        )
        self.update(mean, variance, n > 0)

    def total_by_row(self, per_step: Any) -> Any:
        """Sum (time, features) over the timesteps of each row."""
        per_timestep = len(self.mean.shape) == 2
        last = self.mean.shape[0] - 1 if per_timestep else 0
        time = ops.shape(per_step)[0]
        missing = max(last - time, 0) if isinstance(time, int) else ops.maximum(last - time, 0)
        rows = [
            per_step[:last],
            ops.zeros((missing, per_step.shape[1]), per_step.dtype),
            ops.sum(per_step[last:], axis=0, keepdims=True),
        ]
        by_row = ops.concatenate(rows, axis=0)
        return by_row if per_timestep else by_row[0]

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
        row = self._reached_rows(steps)
        return ops.take(mean, row, axis=0), ops.take(variance, row, axis=0)

    def _reached_rows(self, steps: Any) -> Any:
        """For every timestep, the row that training reached and that stands for it."""
        row = ops.arange(self.mean.shape[0])
        reached = self.update_count > 0
        before = ops.logical_and(reached, row <= ops.expand_dims(steps, -1))
        last_before = ops.max(ops.where(before, row, -1), axis=1)
        first = ops.cast(ops.argmax(ops.cast(reached, "int32")), row.dtype)
        return ops.where(last_before < 0, first, last_before)
