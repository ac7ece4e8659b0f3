"""Accumulate the batch statistics of a batch normalization over several calls."""

import inspect
from collections.abc import Mapping
from functools import wraps

import keras
import numpy as np
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.merge_moments import merge_moments
from keras_norm.ops.moments import statistics_dtype
from keras_norm.typing import Tensor


class StatisticsAccumulator:
    """Accumulates the batch statistics of a norm over its training calls.

    A run of a model calls a norm several times if the norm is shared, or is part of a cell in
    keras.layers.RNN. (keras.layers.RNN computes the first timestep twice, so it counts twice.)

    Args:
        norm: a batch normalization in a model from `clone_for_statistics`. Its training calls store
            the batch's statistics in the moving statistics.

    Attributes:
        called: whether the norm was called, or traced, in training mode.
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
        self.called = False
        self.count, self.mean, self.variance = zeros(shape[:-1]), zeros(shape), zeros(shape)
        if isinstance(norm, StatisticsNormalization):
            update = norm.update_statistics

            def update_and_add(mean: Tensor, variance: Tensor, count: Tensor) -> None:
                update(mean, variance, count)
                self._add(count, mean, variance)

            norm.update_statistics = update_and_add  # type: ignore[method-assign]
            return
        call, signature = norm.call, inspect.signature(norm.call)

        @wraps(call)
        def call_and_add(*args: object, **kwargs: object) -> Tensor:
            arguments = signature.bind(*args, **kwargs).arguments
            outputs = call(*args, **kwargs)
            if arguments.get("training", "training" not in signature.parameters):
                self._add(_count_unmasked(norm, arguments), norm.moving_mean, norm.moving_variance)
            return outputs

        norm.call = call_and_add

    @property
    def variables(self) -> tuple[keras.Variable, keras.Variable, keras.Variable]:
        """Return the accumulator's variables (count, mean, variance)."""
        return self.count, self.mean, self.variance

    def reset(self) -> None:
        """Set the accumulated count, mean and variance to 0."""
        for variable in self.variables:
            variable.assign(np.zeros(variable.shape))

    def _add(self, *new: Tensor) -> None:
        self.called = True
        n, m, v = (ops.cast(x, self.mean.dtype) for x in new)
        # Without unmasked positions, n is 0 and the statistics are NaN. Use zeros instead of NaN.
        m, v = (ops.where(n > 0, s, 0.0) for s in (m, v))
        old = ops.expand_dims(self.count, -1), self.mean, self.variance
        count, mean, variance = merge_moments(old, (n, m, v))
        self.count.assign(count[..., 0])
        self.mean.assign(mean)
        self.variance.assign(variance)


def _count_unmasked(norm: keras.layers.Layer, arguments: Mapping[str, Tensor]) -> Tensor:
    """Count the unmasked positions in a call of keras.layers.BatchNormalization, as a tensor (1,).

    Args:
        norm: the layer.
        arguments: arguments of its call, by name; the first argument is the inputs.
    """
    x, mask = next(iter(arguments.values())), arguments.get("mask")
    n = ops.reshape(ops.cast(ops.size(x), "float32") / norm.moving_mean.shape[-1], (1,))
    return n if mask is None else n * ops.mean(ops.cast(mask, "float32"))
