"""Batch normalization in the loop over time, with the statistics of the batch."""

from collections.abc import Callable
from typing import NamedTuple

from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.enough_sequences import (
    MIN_SEQUENCES,
    has_enough_sequences,
    replace_moments,
    share_moments,
)
from keras_norm.ops.moments import Moments
from keras_norm.ops.replicas import all_reduce
from keras_norm.ops.timestep_norm import first_latest, with_latest
from keras_norm.typing import Tensor, Tensors


class BatchNormTraining(NamedTuple):
    """Batch normalization with the statistics of the batch at each timestep, as in training.

    `rows` are the moving mean and variance of every timestep, each (time, width). They replace the
    statistics of the batch at timesteps with fewer than two unmasked sequences. With a mask a third
    row says whether the timestep has enough sequences, (time, 1). Without enough, the statistics of
    the last timestep that had enough are used.
    """

    rows: tuple[Tensor, ...]
    layer: StatisticsNormalization

    @classmethod
    def of_layer(
        cls, layer: StatisticsNormalization, steps: Tensor, unmasked: Tensor | None, dtype: str
    ) -> "BatchNormTraining":
        """Create a `BatchNormTraining` from a batch normalization layer and the timesteps `steps`.

        Args:
            layer: the layer.
            steps: the timesteps, int (time,).
            unmasked: bool (time, batch, 1), or None.
            dtype: dtype of the loop.
        """
        rows = layer.statistics_at(steps, dtype)
        if unmasked is None or not layer.per_timestep:
            return cls(rows, layer)
        count = ops.sum(ops.cast(unmasked, dtype), axis=1)
        count = all_reduce(count) if layer.synchronized else count
        return cls((*rows, has_enough_sequences(count, layer.min_sequences)), layer)

    def first_latest(self) -> Tensors:
        """Return `latest`, an argument of `normalize_step`, for timestep 0: zeros, or []."""
        if len(self.rows) < 3:
            return []
        # Use the static width: TensorFlow's gradient of a loop needs static shapes.
        return first_latest(self.rows[0].shape[-1], self.rows[0].dtype)

    def normalize(
        self, x: Tensor, unmasked: Tensor | None, mean: Tensor, variance: Tensor, *enough: Tensor
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Normalize x (time, batch, width); return y and the batch statistics of each timestep."""

        def share(m: Moments) -> Moments:
            return share_moments(m, self.layer.min_sequences, axis=0)

        return self._normalize(x, unmasked, (mean, variance), share if enough else None)

    def normalize_step(
        self, x: Tensor, unmasked: Tensor | None, now: Tensors, latest: Tensors
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensors]:
        """Normalize x (batch, width) with the statistics of this timestep or an earlier timestep.

        Args:
            x: tensor to normalize.
            unmasked: bool (batch, 1), or None.
            now: the rows of this timestep.
            latest: mean and variance, (1, width), of the last timestep that had enough sequences,
                and a number (1, 1) above 0 if any had; empty without a mask.

        Returns:
            y, the statistics of the batch, and `latest` for the next timestep.
        """
        moving = now[0], now[1]
        if not latest:
            return *self._normalize(x, unmasked, moving, None), []
        mean, variance, enough = with_latest(now, latest)
        after: Tensors = []

        def replace(m: Moments) -> Moments:
            used = replace_moments(m, enough, mean, variance)
            after.extend((used.mean, used.variance))
            return used

        y, batch = self._normalize(x, unmasked, moving, replace)
        return y, batch, [*after, ops.maximum(latest[2], ops.cast(enough, latest[2].dtype))]

    def _normalize(
        self,
        x: Tensor,
        unmasked: Tensor | None,
        moving: tuple[Tensor, Tensor],
        replace: Callable[[Moments], Moments] | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        rank = len(x.shape)
        # min_count is 2 for every batch normalization, because one sequence has no variance.
        y, batch = self.layer.normalize_batch(
            x, rank - 1, [rank - 2], moving, unmasked, min_count=MIN_SEQUENCES, replace=replace
        )
        return y, tuple(ops.squeeze(s, axis=rank - 2) for s in batch)
