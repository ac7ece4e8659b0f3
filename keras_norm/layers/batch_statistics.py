"""Base class of the batch normalization layers, with batch statistics and moving statistics."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import initializers, ops
from numpy.typing import DTypeLike

from keras_norm.layers.normalization import Affine, AffineNormalization
from keras_norm.layers.rematerialization import run_once
from keras_norm.ops import kernels
from keras_norm.ops.enough_sequences import MIN_SEQUENCES
from keras_norm.ops.global_statistics import BatchStatistics, adds_over_replicas, global_statistics
from keras_norm.ops.moments import Moments, identity, moments, statistics_dtype
from keras_norm.ops.normalize import normalize
from keras_norm.ops.replicas import all_reduce, is_part_of_batch, sum_over_replicas, synchronizes
from keras_norm.typing import Serializable, Tensor


class StatisticsNormalization(AffineNormalization):
    """Base class of the layers that normalize with batch statistics and moving statistics.

    Training uses the statistics of the batch, inference the moving mean and variance. A layer has
    one row of moving statistics, or one row for each timestep. `BatchNormalization` documents the
    arguments and the errors.

    Attributes:
        per_timestep: whether there is one row of statistics for each timestep.
        min_sequences: number of sequences that is enough for the statistics of a timestep.
    """

    per_timestep: ClassVar = False
    min_sequences: int = MIN_SEQUENCES
    moving_mean: keras.Variable
    moving_variance: keras.Variable
    update_count: keras.Variable | None

    def __init__(
        self,
        *,
        momentum: float | None,
        debias: bool,
        unbiased_variance: bool = False,
        synchronized: bool = False,
        moving_mean_initializer: Serializable = "zeros",
        moving_variance_initializer: Serializable = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if momentum is not None and not 0.0 <= momentum <= 1.0:
            raise ValueError(
                "momentum must be within [0, 1], or None for the mean of all batches. "
                f"Received: momentum={momentum}."
            )
        if debias and momentum == 1.0:
            raise ValueError(
                "debias=True needs a momentum below 1: with momentum=1 the moving statistics never "
                "change. Received: debias=True, momentum=1.0."
            )
        self.momentum = momentum
        self.debias = debias
        self.unbiased_variance = unbiased_variance
        self.synchronized = synchronized
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)

    def rematerialized_call(
        self, layer_call: Callable[..., object], *args: object, **kwargs: object
    ) -> Callable[..., object]:
        """Return a call that runs once in a training step; warn if a keras.RematScope is active."""
        return run_once(self, layer_call, super().rematerialized_call(layer_call, *args, **kwargs))

    def add_statistic(
        self, name: str, shape: tuple[int, ...], initializer: Serializable, dtype: str | None = None
    ) -> keras.Variable:
        """Create a non-trainable weight for a moving statistic."""
        # Averages of float16 or bfloat16 values need more digits than these dtypes have.
        dtype = dtype or statistics_dtype(self.variable_dtype)
        return self.add_weight(
            shape, initializer, dtype, trainable=False, autocast=False, name=name
        )

    def add_statistics(self, shape: tuple[int, ...], counted: bool = False) -> None:
        """Create the moving mean and variance, of shape (features,) or (max_timesteps, features).

        The layer counts its updates if `counted` is True, or if its average is debiased or
        cumulative.
        """
        add = self.add_statistic
        self.moving_mean = add("moving_mean", shape, self.moving_mean_initializer)
        self.moving_variance = add("moving_variance", shape, self.moving_variance_initializer)
        self.update_count = None
        if counted or self.debias or self.momentum is None:
            self.update_count = add("update_count", shape[:-1], "zeros", "int32")

    def update_weight(self, n: Tensor | None, dtype: DTypeLike) -> Tensor:
        """Compute the weight of the latest batch in the update of a moving average.

        ::

            m_n = (1 - w_n) * m_(n-1) + w_n * s_n        s_n: statistic of the n-th batch

            exponential    w_n = 1 - momentum
            debiased       w_n = (1 - momentum) / (1 - momentum^n)
            cumulative     w_n = 1 / n

        The debiased m_n equals an exponential average with initial value 0, divided by
        1 - momentum^n (Kingma and Ba, "Adam" (2015), section 3). So inference uses the stored
        value directly.

        Args:
            n: number of updates, this update included; not used by the exponential average.
            dtype: dtype of the result.
        """
        if self.momentum is None:
            return 1.0 / ops.cast(n, dtype)
        w = ops.convert_to_tensor(1.0 - self.momentum, dtype)
        if self.debias and self.momentum > 0.0:
            # Use expm1: 1 - momentum^n loses digits if momentum is close to 1.
            log = ops.convert_to_tensor(math.log(self.momentum), dtype)
            return w / -ops.expm1(ops.cast(n, dtype) * log)
        return w

    @staticmethod
    def update_average(
        average: keras.Variable, batch: Tensor, weight: Tensor, valid: Tensor
    ) -> None:
        """Where `valid` is True, update a moving average with the statistic of a batch."""
        before = ops.cast(average, batch.dtype)
        after = ops.where(valid, (1.0 - weight) * before + weight * batch, before)
        average.assign(ops.cast(after, average.dtype))

    def update_statistics(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the moving statistics with the statistics of one batch.

        Args:
            mean: tensor that broadcasts to the moving mean.
            variance: tensor that broadcasts to the moving variance.
            count: number of positions of each statistic, of equal rank. With a count of 0 the
                moving statistic stays unchanged.

        Raises:
            ValueError: the layer needs a count of its updates, but was built without it.
        """
        n, valid = None, count > 0
        if self.update_count is not None:
            before = ops.convert_to_tensor(self.update_count)
            n = before + 1
            self.update_count.assign(ops.where(ops.any(valid, axis=-1), n, before))
            n = ops.expand_dims(n, -1)
        elif self.momentum is None or self.debias:
            raise ValueError(
                f"Layer {self.name!r} does not count its updates, because it was built with a "
                "momentum and debias=False. The number of updates is needed for momentum=None, and "
                f"for debias=True. Received: momentum={self.momentum}, debias={self.debias}. Set "
                "momentum and debias in the constructor of the layer."
            )
        w = self.update_weight(n, mean.dtype)
        for moving, batch in ((self.moving_mean, mean), (self.moving_variance, variance)):
            self.update_average(moving, batch, w, valid)

    def update_steps(self, batch: BatchStatistics, *, ghosts: bool = False) -> None:
        """Update the moving statistics with the statistics of all timesteps of a batch.

        Timestep t updates row t. All timesteps beyond the last row update the last row, with the
        mean of their statistics. Timesteps without enough sequences update nothing.

        Args:
            batch: statistics (time, features); the count broadcasts to (time, features).
            ghosts: whether the rows are ghost batches, of any size, in place of timesteps. The mean
                of their statistics then includes the ghost batches of all replicas.
        """
        batch = batch if ghosts else batch.of_enough_sequences(self.min_sequences)
        mean, variance, count = self.correct_bias(batch)
        count = ops.broadcast_to(count, (ops.shape(mean)[0], count.shape[1]))
        valid = count > 0
        sums = [self.sum_by_row(ops.cast(valid, mean.dtype))]
        sums += [self.sum_by_row(ops.where(valid, s, 0.0)) for s in (mean, variance)]
        sums.append(self.sum_by_row(count))
        if ghosts and adds_over_replicas(self.name):
            sums = sum_over_replicas(*sums)
        n, mean, variance, count = sums
        n = ops.maximum(n, 1.0)
        self.update_statistics(mean / n, variance / n, count)

    def sum_by_row(self, per_step: Tensor) -> Tensor:
        """Sum `per_step` (time, features) over the timesteps that share the same moving statistics.

        With `per_timestep`, row t of the result is for timestep t, the last row for later ones too.
        """
        last = self.moving_mean.shape[0] - 1 if self.per_timestep else 0
        time = ops.shape(per_step)[0]
        missing = max(last - time, 0) if isinstance(time, int) else ops.maximum(last - time, 0)
        rows = [
            per_step[:last],
            ops.zeros((missing, per_step.shape[1]), per_step.dtype),
            ops.sum(per_step[last:], axis=0, keepdims=True),
        ]
        by_row = ops.concatenate(rows, axis=0)
        return by_row if self.per_timestep else by_row[0]

    def statistics_at(self, steps: Tensor, dtype: DTypeLike) -> tuple[Tensor, Tensor]:
        """Return the moving statistics that inference uses at given timesteps.

        Timestep t uses row min(t, last row). If training never updated that row, timestep t uses
        the nearest updated row before it, or else the first updated row.

        Args:
            steps: timesteps, int (time,) or (time, batch), counted from 0.
            dtype: dtype of the result.

        Returns:
            Moving mean and variance, each (*steps.shape, features).
        """
        mean, variance = ops.cast(self.moving_mean, dtype), ops.cast(self.moving_variance, dtype)
        if not self.per_timestep:
            shape = (*ops.shape(steps), self.moving_mean.shape[0])
            return ops.broadcast_to(mean, shape), ops.broadcast_to(variance, shape)
        rows = ops.arange(self.moving_mean.shape[0])
        reached = ops.convert_to_tensor(self.update_count) > 0
        before = ops.logical_and(reached, rows <= ops.expand_dims(steps, -1))
        last_before = ops.max(ops.where(before, rows, -1), axis=-1)
        first = ops.cast(ops.argmax(ops.cast(reached, "int32")), rows.dtype)
        row = ops.where(last_before < 0, first, last_before)
        return ops.take(mean, row, axis=0), ops.take(variance, row, axis=0)

    def normalize_moving(self, x: Tensor, axis: int, mean: Tensor, variance: Tensor) -> Tensor:
        """Normalize `x` with a moving mean and variance that broadcast to `x`, as in inference."""
        x = ops.cast(x, statistics_dtype(x.dtype))
        affine = self.affine_weights(len(x.shape), [axis])
        y = normalize(x - mean, variance, self.epsilon, *affine)
        return ops.cast(y, self.compute_dtype)

    def normalize_batch(
        self,
        x: Tensor,
        axis: int,
        reduced: list[int],
        moving: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
        min_count: int = 1,
        fused: bool = False,
        replace: Callable[[Moments], Moments] | None = None,
    ) -> tuple[Tensor, BatchStatistics]:
        """Normalize `x` with the mean and variance of the batch, as in training.

        Args:
            x: floating tensor with features at `axis`.
            axis: the feature axis.
            reduced: axes that the statistics are computed over.
            moving: mean and variance to use with fewer than `min_count` unmasked positions.
            mask: bool tensor that broadcasts to `x`, or None.
            min_count: smallest number of unmasked positions that gives statistics.
            fused: whether a fused kernel may be used. Loops pass False, because the kernel takes
                long to start at every timestep. Batch renormalization passes False, because the
                kernel does not correct gamma and beta.
            replace: returns the moments to normalize with, from those of the batch.

        Returns:
            The normalized tensor in the dtype of its statistics, and the statistics of the batch,
            without gradients. The batch is the global batch with `synchronized`, else the batch of
            this replica. With `synchronized`, a call in a loop raises a ValueError.
        """
        leading = reduced == list(range(len(reduced)))
        synchronized = self.synchronized and synchronizes(self.name)
        supported = leading and mask is None and not synchronized
        if fused and supported and kernels.uses_fused_batch_norm(x, axis, "training"):
            from keras_norm.ops.tensorflow_batch_norm import normalize_batch

            feature_axes = len(x.shape) - len(reduced)
            enough = min_count < 2 or (x.shape[0] is not None and x.shape[0] >= min_count)
            options = self.gamma, self.beta, self.epsilon, feature_axes, min_count
            y, mean, variance, count = normalize_batch(x, *options, None if enough else moving)
        else:
            sum_of = all_reduce if synchronized else identity
            m = moments(x, reduced, mask, sum_of, min_count, moving)
            mean, variance, count = m.mean, m.variance, m.count
            used = m if replace is None else replace(m)
            affine = self.correct_affine(self.affine_weights(len(x.shape), [axis]), *used[1:3])
            y = normalize(used.centered, used.variance, self.epsilon, *affine)
        batch = BatchStatistics(ops.stop_gradient(mean), ops.stop_gradient(variance), count)
        if min_count > 1 and is_part_of_batch() and not self.synchronized:
            batch = batch.with_single_value(x, mask, reduced)
        return y, batch

    def correct_affine(self, affine: Affine, mean: Tensor, variance: Tensor) -> Affine:
        """Return gamma and beta unchanged; a layer with batch renormalization changes them."""
        return affine

    def merge_replicas(self, batch: BatchStatistics, *, per_timestep: bool) -> BatchStatistics:
        """Merge the batch statistics of all replicas into statistics of the global batch."""
        if self.synchronized:  # `batch` already has the statistics of all replicas
            return batch
        return global_statistics([batch], name=self.name, per_timestep=per_timestep)[0]

    def correct_bias(self, batch: BatchStatistics) -> BatchStatistics:
        """Make the variance unbiased, if the layer's `unbiased_variance` is True."""
        return batch.unbiased() if self.unbiased_variance else batch
