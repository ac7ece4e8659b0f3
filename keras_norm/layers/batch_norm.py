"""Batch normalization layer, with ghost batches and batch renormalization."""

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.inputs import canonical_axes, feature_sizes, is_int, require_floating
from keras_norm.layers.normalization import Affine, reshape_to_broadcast
from keras_norm.layers.renorm import (
    add_renorm_weights,
    renormalize,
    require_renorm,
    update_renorm,
)
from keras_norm.ops import kernels
from keras_norm.ops.ghost_batches import merge_batch, split_batch
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.ops.masks import align_mask
from keras_norm.ops.moments import statistics_dtype
from keras_norm.typing import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormalization(StatisticsNormalization):
    """Normalize each feature over all axes but the feature axis.

    ::

        y = gamma * (x - mean) / sqrt(var + epsilon) + beta

    Training uses the mean and biased variance of the batch, and updates the moving statistics with
    them. Inference uses the moving statistics, and so does a layer with `trainable=False`. The
    default values equal the defaults of `keras.layers.BatchNormalization`.

    Args:
        axis: the feature axis, which is not reduced.
        momentum: weight of the old value in the moving statistics, in [0, 1]. None computes the
            mean of the statistics of all batches.
        epsilon: number added to the variance.
        center: whether the layer has a beta.
        scale: whether the layer has a gamma.
        debias: divide the exponential average by 1 - momentum^n, so that inference is right after
            the first step.
        virtual_batch_size: largest number of samples that are normalized together in training
            ("ghost batch normalization"). The batch is split into ghost batches, as equal as whole
            samples allow. The moving statistics are updated once, with the mean of the statistics
            of the ghost batches. None for the whole batch.
        renorm: whether to use batch renormalization.
        renorm_clipping: dict with any of `rmax`, `rmin`, `dmax`.
        renorm_momentum: weight of the old value in the averages of batch renormalization.
        synchronized: normalize with the statistics of the global batch, of all replicas of a
            distributed step. If False, each replica normalizes with the statistics of its part. The
            moving statistics are those of the global batch with both values. On JAX both values
            have one result, because all statistics are those of the global batch.
        **kwargs: `unbiased_variance` (update the moving variance with n - 1 in place of n as the
            divisor), `moving_mean_initializer`, `moving_variance_initializer`,
            `beta_initializer`, `gamma_initializer`, `beta_regularizer`, `gamma_regularizer`,
            `beta_constraint`, `gamma_constraint`, and `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: floating tensor of rank 2 or more.
        training: whether to use the batch's statistics and to update the moving statistics.
        mask: True at unmasked positions: (batch, time), or the shape of `inputs` without one
            dimension. A fully masked batch is normalized with the moving statistics and does not
            update them.

    Raises:
        TypeError: the inputs are integers, the axis is not an integer, or an argument is unknown.
        ValueError: the axis is out of range; the mask has a wrong rank; momentum is outside [0, 1];
            `renorm_clipping` has an unknown key; `virtual_batch_size` is below 1, or is combined
            with `renorm` or `synchronized`.

    Example:
        >>> layer = BatchNormalization(momentum=None)
        >>> y = layer(np.array([[1.0], [3.0]]), training=True)
        >>> layer.moving_mean.numpy(), layer.moving_variance.numpy()
        (array([2.], dtype=float32), array([1.], dtype=float32))

    Reference:
        Ioffe and Szegedy, "Batch Normalization" (2015), arXiv 1502.03167, algorithms 1 and 2;
        Ioffe, "Batch Renormalization" (2017), arXiv 1702.03275; Hoffer, Hubara and Soudry, "Train
        longer, generalize better" (2017), arXiv 1705.08741, algorithm 1 (ghost batches).
    """

    KERAS_CLASS: ClassVar = keras.layers.BatchNormalization
    KERAS_OPTIONS: ClassVar = {
        "debias": False,
        "virtual_batch_size": None,
        "renorm": False,
        "unbiased_variance": False,
    }

    def __init__(
        self,
        axis: int = -1,
        momentum: float | None = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        *,
        debias: bool = False,
        virtual_batch_size: int | None = None,
        renorm: bool = False,
        renorm_clipping: dict[str, float] | None = None,
        renorm_momentum: float = 0.99,
        synchronized: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            momentum=momentum,
            debias=debias,
            epsilon=epsilon,
            center=center,
            scale=scale,
            synchronized=synchronized,
            **kwargs,
        )
        if not is_int(axis):
            raise TypeError(
                f"axis must be an int, the index of the feature axis. Received: axis={axis!r}."
            )
        if virtual_batch_size is not None and not (
            is_int(virtual_batch_size) and virtual_batch_size >= 1
        ):
            raise ValueError(
                "virtual_batch_size must be an int of 1 or more, or None for the whole batch. "
                f"Received: virtual_batch_size={virtual_batch_size!r}."
            )
        if virtual_batch_size is not None and (renorm or synchronized):
            raise ValueError(
                "virtual_batch_size cannot be combined with renorm or synchronized. "
                "virtual_batch_size computes statistics on parts of a batch. renorm=True also uses "
                "earlier batches, and synchronized=True all replicas. Choose one option. Received: "
                f"virtual_batch_size={virtual_batch_size}, renorm={renorm}, "
                f"synchronized={synchronized}."
            )
        if renorm and (debias or momentum is None):
            raise ValueError(
                "renorm needs exponential averages: set debias=False, and momentum to a number. "
                f"Received: renorm=True, debias={debias}, momentum={momentum}."
            )
        if renorm:
            require_renorm(renorm_clipping, renorm_momentum)
        self.axis = int(axis)
        self.virtual_batch_size = virtual_batch_size
        self.renorm = renorm
        self.renorm_clipping = renorm_clipping
        self.renorm_momentum = renorm_momentum

    def build(self, input_shape: Shape) -> None:
        """Create gamma, beta and the moving statistics."""
        (self._axis,) = canonical_axes(self.axis, input_shape)
        features = feature_sizes(self.axis, input_shape)
        self.add_affine_weights(features)
        self.add_statistics(features)
        if self.renorm:
            add_renorm_weights(self, features)
        axes = {self._axis: features[0]}
        self.input_spec = keras.layers.InputSpec(ndim=len(input_shape), axes=axes)

    def require_recurrence_options(self) -> None:
        """Raise a ValueError for options that a recurrence does not support, such as `renorm`."""
        for option in ("virtual_batch_size", "renorm"):
            if value := getattr(self, option):
                raise ValueError(
                    "A recurrent layer computes batch statistics per timestep. It does not support "
                    f"BatchNormalization({option}={value}). Leave {option} out."
                )

    def call(
        self, inputs: Tensor, training: bool | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Normalize `inputs` with batch statistics in training, else with moving statistics."""
        require_floating(inputs, self)
        if mask is not None:
            mask = align_mask(mask, inputs, self._axis)
        if not (training and self.trainable):
            return self._infer(inputs)
        if self.virtual_batch_size is not None:
            return self._normalize_ghosts(inputs, mask, self.virtual_batch_size)
        y, batch = self.normalize_batch(
            inputs,
            self._axis,
            [a for a in range(len(inputs.shape)) if a != self._axis],
            self._moving_statistics(inputs),
            mask,
            fused=not self.renorm,
        )
        batch = self.correct_bias(self.merge_replicas(batch, per_timestep=False))
        self.update_statistics(*(ops.reshape(s, (-1,)) for s in batch))
        return ops.cast(y, self.compute_dtype)

    def correct_affine(self, affine: Affine, mean: Tensor, variance: Tensor) -> Affine:
        """Return gamma and beta; with renorm=True, apply batch renormalization's corrections."""
        return renormalize(self, affine, mean, variance) if self.renorm else affine

    def update_statistics(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the moving statistics, and the averages of batch renormalization."""
        if self.renorm:
            update_renorm(self, mean, variance, count > 0)
        else:
            super().update_statistics(mean, variance, count)

    def _infer(self, inputs: Tensor) -> Tensor:
        """Normalize the inputs with the moving statistics, as in inference."""
        if not kernels.uses_fused_batch_norm(inputs, self._axis, "inference"):
            return self.normalize_moving(inputs, self._axis, *self._moving_statistics(inputs))
        from keras_norm.ops.tensorflow_batch_norm import normalize_with_statistics

        moving = (self.moving_mean, self.moving_variance)
        y = normalize_with_statistics(inputs, *moving, self.gamma, self.beta, self.epsilon)
        return ops.cast(y, self.compute_dtype)

    def _normalize_ghosts(
        self, inputs: Tensor, mask: Tensor | None, virtual_batch_size: int
    ) -> Tensor:
        x, unmasked = split_batch(inputs, mask, virtual_batch_size)
        reduced = [a for a in range(1, len(x.shape)) if a != self._axis + 1]
        y, batch = self.normalize_batch(
            x, self._axis + 1, reduced, self._moving_statistics(inputs), unmasked
        )
        ghosts = ops.shape(x)[0]
        rows = (ops.reshape(s, (ghosts, math.prod(s.shape[1:]))) for s in batch)
        self.update_steps(BatchStatistics(*rows), ghosts=True)
        return ops.cast(merge_batch(y, ops.shape(inputs)[0]), self.compute_dtype)

    def _moving_statistics(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Reshape the moving statistics to broadcast to `inputs`."""
        dtype = statistics_dtype(inputs.dtype)
        mean, variance = (
            reshape_to_broadcast(ops.cast(s, dtype), len(inputs.shape), [self._axis])
            for s in (self.moving_mean, self.moving_variance)
        )
        return mean, variance
