"""Batch normalization with statistics of every timestep."""

from typing import Any

import keras
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.inputs import feature_sizes, is_int, require_floating, with_features
from keras_norm.ops.masks import align_mask
from keras_norm.ops.moments import statistics_dtype

FEWEST = 2  # sequences that have a variance


@keras.saving.register_keras_serializable(package="keras_norm")
class TimestepBatchNormalization(StatisticsNormalization):
    """Normalize every timestep of a sequence over the batch, with statistics of its own.

    At timestep t, over the sequences that are alive at t::

        y_t = gamma * (x_t - mean_t) / sqrt(var_t + epsilon) + beta

    gamma and beta are shared over time. Training uses the batch's mean_t and var_t and moves row t
    of the moving statistics; timesteps beyond the last row all move that row. A timestep with fewer
    than two alive sequences normalizes with its moving statistics and moves nothing. Inference uses
    row min(t, last row that training reached).

    Args:
        max_timesteps: number of rows of statistics.
        momentum: weight of the past in the moving statistics, in [0, 1]; None averages all batches.
        epsilon: number added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        debias: divide each row's average by 1 - momentum^n, n being the updates of that row. On by
            default: late timesteps of long sequences are seen seldom.
        **kwargs: `unbiased_variance`, `moving_mean_initializer`, `moving_variance_initializer`,
            `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (batch, time, features), or (batch, features) with `step`.
        training: whether to use, and to learn from, the batch's statistics.
        mask: (batch, time), or (batch,) with `step`; True where a sequence is alive.
        step: the timestep of `inputs`, an int or int tensor from 0 on, or at inference one for each
            sequence (batch,); None for whole sequences. Training with several takes the greatest.

    Weights:
        gamma and beta (features,), moving_mean and moving_variance (max_timesteps, features), and
        update_count (max_timesteps,), the updates that each row had.

    Raises:
        TypeError: an integer input, an unknown argument, or no `max_timesteps`.
        ValueError: `max_timesteps` below 1, inputs or a mask of another rank, a negative `step`.

    Example:
    >>> layer = TimestepBatchNormalization(max_timesteps=5)
    >>> y = layer(np.random.default_rng(0).normal(size=(32, 5, 3)), training=True)
    >>> layer.update_count.numpy()
    array([1, 1, 1, 1, 1], dtype=int32)

    Reference:
        Cooijmans et al., "Recurrent Batch Normalization" (2016), arXiv 1603.09025, section 3.
    """

    def __init__(
        self,
        max_timesteps: int,
        momentum: float | None = 0.99,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        *,
        debias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            momentum=momentum, debias=debias, epsilon=epsilon, center=center, scale=scale, **kwargs
        )
        if not (is_int(max_timesteps) and max_timesteps >= 1):
            raise ValueError(
                "max_timesteps is the number of timesteps with statistics of their own, an int "
                f"from 1 on. Received: max_timesteps={max_timesteps!r}."
            )
        self.max_timesteps = int(max_timesteps)

    def build(self, input_shape: Any) -> None:
        """Create gamma, beta and a row of statistics for every timestep."""
        features = feature_sizes(-1, input_shape)
        self.add_affine_weights(features)
        self.add_statistics((self.max_timesteps, *features), counted=True)

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None, step: Any = None
    ) -> Any:
        """Normalize whole sequences, or the one timestep `step`."""
        require_floating(inputs, self)
        rank = 3 if step is None else 2
        if len(inputs.shape) != rank:
            expected = "(batch, time, features)" if step is None else "(batch, features) with step"
            raise ValueError(
                f"{type(self).__name__} takes inputs {expected}. "
                f"Received inputs of shape {tuple(inputs.shape)}."
            )
        if is_int(step) and step < 0:
            raise ValueError(f"step counts timesteps from 0 on. Received: step={step}.")
        inputs, _ = with_features(inputs, -1, self.moving_mean.shape[-1:])
        if mask is not None:
            mask = align_mask(mask, inputs, axis=rank - 1)
        if step is None:
            steps = ops.arange(ops.shape(inputs)[1])
        else:
            steps = ops.reshape(ops.cast(step, "int32"), (-1,))
            if steps.shape[0] == 0:  # no backend takes the maximum of the steps of an empty batch
                steps = ops.zeros((1,), "int32")
        moving = self.statistics_at(steps, statistics_dtype(inputs.dtype))
        if not (training and self.trainable):
            return self.normalize_moving(inputs, rank - 1, *moving)
        y, (mean, variance, count) = self.normalize_batch(
            inputs, rank - 1, [0], moving, mask, fewest=FEWEST, fused=step is None
        )
        if step is None:
            self.update_steps(mean[0], variance[0], count[0])
        else:
            row = ops.minimum(ops.max(steps), self.max_timesteps - 1)
            here = ops.expand_dims(ops.arange(self.max_timesteps) == row, -1)
            # A batch too small for statistics has the moving ones of each sequence, which move
            # nothing. Row 0 stands for all: zeros where a graph is run on an empty batch.
            mean, variance = (ops.sum(s[:1], axis=0, keepdims=True) for s in (mean, variance))
            self.update_statistics(mean, variance, ops.where(here, count, 0.0))
        return ops.cast(y, self.compute_dtype)
