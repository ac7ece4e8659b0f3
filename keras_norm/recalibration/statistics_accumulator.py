"""Accumulate the batch statistics of a batch normalization over several calls."""

import inspect
import itertools
from collections.abc import Callable, Mapping
from functools import wraps

import keras
import numpy as np
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.global_statistics import BatchStatistics
from keras_norm.ops.moments import moments, statistics_dtype
from keras_norm.typing import Tensor

# Numbers the norms in the order of their first calls: 0, 1, 2 and so on.
CALLS = itertools.count()


class StatisticsAccumulator:
    """Accumulates the batch statistics of a norm over its training calls.

    A run of a model calls a norm several times if the norm is shared, or is part of a cell in
    keras.layers.RNN. (keras.layers.RNN computes the first timestep twice, so it counts twice.)

    The training calls of the norm no longer change its moving statistics. So a batch whose
    statistics come from them does not depend on the batches before it.

    Args:
        norm: a batch normalization in a model from `clone_for_statistics`. The training calls of
            a layer that is neither of keras_norm nor of Keras must store the batch's statistics in
            the moving statistics.

    Attributes:
        first_call: the number of the first call, or trace, in training mode, among the calls of all
            norms; None before it.
        counts_all: whether timesteps without enough unmasked sequences count.
        count: number of positions since `reset`, for each row of statistics.
        mean: mean of these positions.
        variance: variance of these positions.
    """

    def __init__(self, norm: keras.layers.Layer) -> None:
        # Use float32 or wider, without autocast: float16 has 3 digits and a maximum of 65,504.
        dtype = statistics_dtype(norm.moving_mean.dtype)

        def zeros(shape: tuple[int, ...]) -> keras.Variable:
            return keras.Variable(np.zeros(shape), dtype=dtype, trainable=False, autocast=False)

        shape = norm.moving_mean.shape
        self.first_call: int | None = None
        self.counts_all = False
        self.count, self.mean, self.variance = zeros(shape[:-1]), zeros(shape), zeros(shape)
        if isinstance(norm, StatisticsNormalization):
            self._replace_updates(norm)
        elif type(norm) is keras.layers.BatchNormalization:
            norm.momentum = 1.0
            self._follow_calls(norm, _moments_of_inputs)
        else:
            self._follow_calls(norm, _stored_statistics)

    @property
    def variables(self) -> tuple[keras.Variable, keras.Variable, keras.Variable]:
        """Return the accumulator's variables (count, mean, variance)."""
        return self.count, self.mean, self.variance

    def reset(self) -> None:
        """Set the accumulated count, mean and variance to 0."""
        for variable in self.variables:
            variable.assign(ops.zeros(variable.shape, variable.dtype))

    def _replace_updates(self, norm: StatisticsNormalization) -> None:
        """Make a layer of keras_norm update this accumulator, not its moving statistics."""

        def add_steps(batch: BatchStatistics, *, ghosts: bool = False) -> None:
            if not (ghosts or self.counts_all):
                batch = batch.of_enough_sequences(norm.min_sequences)
            self._add(*_merge_steps(norm, batch))

        norm.update_statistics = self._add  # type: ignore[method-assign]
        norm.update_steps = add_steps  # type: ignore[method-assign]

    def _follow_calls(
        self,
        norm: keras.layers.Layer,
        statistics: Callable[[keras.layers.Layer, Mapping[str, Tensor]], tuple[Tensor, ...]],
    ) -> None:
        """Make each training call of a layer add the statistics of its inputs to this object."""
        call, signature = norm.call, inspect.signature(norm.call)

        @wraps(call)
        def call_and_add(*args: object, **kwargs: object) -> Tensor:
            arguments = signature.bind(*args, **kwargs).arguments
            outputs = call(*args, **kwargs)
            training = arguments.get("training", "training" not in signature.parameters)
            if training and norm.trainable:
                self._add(*statistics(norm, arguments))
            return outputs

        norm.call = call_and_add

    def _add(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Merge the statistics of one call into the accumulated count, mean and variance."""
        if self.first_call is None:
            self.first_call = next(CALLS)
        m, v, n = (ops.cast(x, self.mean.dtype) for x in (mean, variance, count))
        # If all samples or timesteps are masked, n is 0, and m and v may be NaN. Replace NaN by 0.
        m, v = (ops.where(n > 0, s, 0.0) for s in (m, v))
        old = BatchStatistics(self.mean, self.variance, ops.expand_dims(self.count, -1))
        merged = old.merge(BatchStatistics(m, v, n))
        self.count.assign(merged.count[..., 0])
        self.mean.assign(merged.mean)
        self.variance.assign(merged.variance)


def _merge_steps(norm: StatisticsNormalization, batch: BatchStatistics) -> list[Tensor]:
    """Merge the statistics of timesteps that share one row of a layer's moving statistics.

    Row t belongs to timestep t. The last row also belongs to all later timesteps, so merge their
    statistics. Without per-timestep statistics, one row belongs to all timesteps.

    Args:
        norm: the layer with the rows.
        batch: statistics (time, features); the count broadcasts to (time, features).
    """
    mean, variance, count = batch
    count = ops.broadcast_to(count, (ops.shape(mean)[0], count.shape[1]))
    mean, variance = (ops.where(count > 0, s, 0.0) for s in (mean, variance))
    last = norm.moving_mean.shape[0] - 1 if norm.per_timestep else 0
    steps = mean, variance, count
    shared = BatchStatistics(*(s[last:] for s in steps)).merge_timesteps()
    pairs = zip(steps, shared, strict=True)
    return [norm.sum_by_row(ops.concatenate([s[:last], row], axis=0)) for s, row in pairs]


def _moments_of_inputs(
    norm: keras.layers.Layer, arguments: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """Compute mean, variance and count of the inputs of keras.layers.BatchNormalization.

    Keras divides by the count plus 1e-7 if there is a mask.

    Args:
        norm: the layer.
        arguments: arguments of its call, by name.
    """
    x, mask = arguments["inputs"], arguments.get("mask")
    mask = None if mask is None else ops.cast(ops.expand_dims(mask, -1), "bool")
    axis = norm.axis % len(x.shape)
    batch = moments(x, [a for a in range(len(x.shape)) if a != axis], mask)
    return tuple(ops.reshape(s, (-1,)) for s in (batch.mean, batch.variance, batch.count))


def _stored_statistics(
    norm: keras.layers.Layer, arguments: Mapping[str, Tensor]
) -> tuple[Tensor, ...]:
    """Return mean, variance and count of a batch that a custom layer with momentum=0 stored.

    With momentum=0, the moving statistics after a call are the mean and variance of the batch.

    Args:
        norm: the layer.
        arguments: arguments of its call, by name; the first argument is the inputs.
    """
    x, mask = next(iter(arguments.values())), arguments.get("mask")
    n = ops.reshape(ops.cast(ops.size(x), "float32") / norm.moving_mean.shape[-1], (1,))
    n = n if mask is None else n * ops.mean(ops.cast(mask, "float32"))
    return ops.convert_to_tensor(norm.moving_mean), ops.convert_to_tensor(norm.moving_variance), n
