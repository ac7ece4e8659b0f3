"""Batch normalization layer with separate statistics for each timestep."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.inputs import feature_sizes, is_int, require_floating, with_features
from keras_norm.ops.enough_sequences import (
    MIN_SEQUENCES,
    has_enough_sequences,
    latest_with_enough,
)
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.ops.leading_padding import count_leading_padding, roll_sequences
from keras_norm.ops.masks import align_mask
from keras_norm.ops.moments import Moments, statistics_dtype
from keras_norm.ops.replicas import is_part_of_batch, require_equal_lengths
from keras_norm.ops.timestep_norm import TimestepNorm
from keras_norm.typing import Shape, Tensor, TensorLike


def timestep_norm(layer: StatisticsNormalization, training: bool) -> TimestepNorm:
    """Return a `TimestepNorm`: pure functions that normalize a single timestep, as `layer` does."""
    learning = bool(training and layer.trainable)
    synchronized = learning and layer.synchronized and is_part_of_batch()
    return TimestepNorm(layer.epsilon, learning, synchronized)


@keras.saving.register_keras_serializable(package="keras_norm")
class TimestepBatchNormalization(StatisticsNormalization):
    """Normalize each timestep over the batch, with separate statistics for each timestep.

    ::

        y_t = gamma * (x_t - mean_t) / sqrt(var_t + epsilon) + beta

    with mean_t and var_t over the sequences that are unmasked at timestep t. gamma and beta are
    shared over time. Training uses mean_t and var_t of the batch, and updates row t of the moving
    statistics. All timesteps beyond the last row update the last row. Inference uses row
    min(t, last row that training updated).

    The statistics of few sequences are noise. So a timestep with fewer unmasked sequences than
    `min_sequences`, and than an earlier timestep, uses the statistics of the last timestep that had
    enough, and updates nothing. A timestep with fewer than two, and without such a timestep before
    it, uses the moving statistics.

    t is 0 at the first unmasked timestep of each sequence, so padding on either side changes no
    output at an unmasked timestep. Later masked timesteps count.

    Args:
        max_timesteps: number of rows of moving statistics.
        momentum: weight of the old value in the moving statistics, in [0, 1]. None computes the
            mean of the statistics of all batches.
        epsilon: number added to the variance.
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        debias: divide the average of each row by 1 - momentum^n, where n counts the updates of the
            row. The default is True because few batches reach the late timesteps.
        min_sequences: number of unmasked sequences that is enough for the statistics of a timestep.
            2 uses the statistics of every timestep that two sequences reach, as in the paper, and
            padded batches then train worse.
        count_leading_padding: whether t is 0 at the first timestep, masked or not. The default of
            `from_config` is True, so that files of earlier revisions give their old outputs.
        **kwargs: `synchronized` of `BatchNormalization`; `unbiased_variance`,
            `moving_mean_initializer`, `moving_variance_initializer`, `beta_initializer`,
            `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`, `beta_constraint`,
            `gamma_constraint`; and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (batch, time, features), or (batch, features) with `step`.
        training: whether to use the batch's statistics and to update the moving statistics.
        mask: (batch, time), or (batch,) with `step`; True at unmasked timesteps.
        step: the timestep of `inputs`, an int or int tensor counted from 0; None for whole
            sequences. At inference it may be a tensor (batch,), with a timestep for each sequence.
            Training with such a tensor uses its maximum.

    Weights:
        gamma and beta (features,), moving_mean and moving_variance (max_timesteps, features), and
        update_count (max_timesteps,), the number of updates of each row.

    Raises:
        TypeError: the inputs are integers, an argument is unknown, or `max_timesteps` is missing.
        ValueError: `max_timesteps` is below 1, `min_sequences` is below 2, `step` is negative, or
            the inputs or the mask have another rank.

    Example:
        >>> layer = TimestepBatchNormalization(max_timesteps=5)
        >>> y = layer(np.random.default_rng(0).normal(size=(32, 5, 3)), training=True)
        >>> layer.update_count.numpy()
        array([1, 1, 1, 1, 1], dtype=int32)

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, section 3.
    """

    # An exported single-step model computes one timestep in each call, without its index. This
    # layer needs the index to choose the statistics of the timestep.
    reads_single_timesteps: ClassVar = False
    per_timestep: ClassVar = True

    def __init__(
        self,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        *,
        debias: bool = True,
        min_sequences: int = 8,
        count_leading_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            momentum=momentum, debias=debias, epsilon=epsilon, center=center, scale=scale, **kwargs
        )
        if not (is_int(max_timesteps) and max_timesteps >= 1):
            raise ValueError(
                "max_timesteps must be the number of timesteps with their own statistics, an int "
                f"of 1 or more. Received: max_timesteps={max_timesteps!r}."
            )
        if not (is_int(min_sequences) and min_sequences >= MIN_SEQUENCES):
            raise ValueError(
                "min_sequences must be an int of 2 or more: a timestep with at least this number "
                "of sequences uses its own statistics. Received: "
                f"min_sequences={min_sequences!r}."
            )
        self.max_timesteps = int(max_timesteps)
        self.min_sequences = int(min_sequences)
        self.count_leading_padding = count_leading_padding

    def build(self, input_shape: Shape) -> None:
        """Create gamma, beta, and a moving mean and variance for each timestep."""
        features = feature_sizes(-1, input_shape)
        self.add_affine_weights(features)
        self.add_statistics((self.max_timesteps, *features), counted=True)

    def step_norm(self, training: bool) -> TimestepNorm:
        """Return the norm as pure functions, which a recurrence applies at each timestep."""
        return timestep_norm(self, training)

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        mask: Tensor | None = None,
        step: TensorLike | None = None,
    ) -> Tensor:
        """Normalize whole sequences, or one timestep with the index `step`."""
        require_floating(inputs, self)
        rank = 3 if step is None else 2
        if len(inputs.shape) != rank:
            expected = "(batch, time, features)" if step is None else "(batch, features) with step"
            raise ValueError(
                f"{type(self).__name__} takes inputs {expected}. "
                f"Received inputs of shape {tuple(inputs.shape)}."
            )
        if is_int(step) and step < 0:
            raise ValueError(
                f"The argument step must be an index of a timestep, 0 or more. Received: {step}."
            )
        inputs, _ = with_features(inputs, -1, self.moving_mean.shape[-1:])
        if mask is not None:
            mask = align_mask(mask, inputs, axis=rank - 1)
        if mask is None or step is not None or self.count_leading_padding:
            return self._normalize(inputs, training, mask, step)
        mask = ops.broadcast_to(mask, (*ops.shape(inputs)[:2], 1))
        n = count_leading_padding(mask[:, :, 0])
        inputs, mask = roll_sequences(inputs, -n), roll_sequences(mask, -n)
        return roll_sequences(self._normalize(inputs, training, mask, step), n)

    def _normalize(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None, step: TensorLike | None
    ) -> Tensor:
        """Normalize sequences that begin at timestep 0, or one timestep with the index `step`."""
        rank = len(inputs.shape)
        if step is None:
            steps = ops.arange(ops.shape(inputs)[1])
        else:
            steps = ops.reshape(ops.cast(step, "int32"), (-1,))
            if steps.shape[0] == 0:  # For an empty batch, `ops.max(steps)` would raise an error.
                steps = ops.zeros((1,), "int32")
        moving = self.statistics_at(steps, statistics_dtype(inputs.dtype))
        if not (training and self.trainable):
            return self.normalize_moving(inputs, rank - 1, *moving)
        if step is None and self.synchronized:
            require_equal_lengths(self.name, inputs.shape[1])
        y, batch = self.normalize_batch(
            inputs,
            rank - 1,
            [0],
            moving,
            mask,
            min_count=MIN_SEQUENCES,
            fused=step is None,
            replace=None if step is not None or mask is None else self._share_moments,
        )
        if step is None:
            batch = BatchStatistics(*(s[0] for s in batch))
            self.update_steps(self.merge_replicas(batch, per_timestep=True))
        else:
            row = ops.minimum(ops.max(steps), self.max_timesteps - 1)
            here = ops.expand_dims(ops.arange(self.max_timesteps) == row, -1)
            # `s[:1]` has one row, so the sum over its rows equals this row. For an empty batch,
            # `s[:1]` has no row, and the sum is 0. An empty batch has a count of 0, so the moving
            # statistics ignore it.
            mean, variance = (ops.sum(s[:1], axis=0, keepdims=True) for s in batch[:2])
            batch = BatchStatistics(mean, variance, ops.where(here, batch.count, 0.0))
            batch = self.merge_replicas(batch, per_timestep=False)
            self.update_statistics(*self.correct_bias(batch.at_least(MIN_SEQUENCES)))
        return ops.cast(y, self.compute_dtype)

    def _share_moments(self, m: Moments) -> Moments:
        """Use an earlier timestep's mean and variance at timesteps with too few sequences."""
        enough = has_enough_sequences(ops.reshape(m.count, (-1, 1)), self.min_sequences)
        latest = latest_with_enough(enough)
        mean, variance = (ops.take(s, latest, axis=1) for s in (m.mean, m.variance))
        return Moments(m.centered + (m.mean - mean), mean, variance, m.count)
