"""What a batch normalization takes statistics of while a model runs as in training."""

import inspect
from collections.abc import Mapping
from functools import wraps
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.ops.moments import statistics_dtype
from keras_norm.ops.pooled_moments import pooled


class Measured:
    """What a norm of a measuring clone takes statistics of in training, over several calls.

    A norm is called more than once where inputs share it, and where a cell runs in
    keras.layers.RNN (which evaluates the first timestep twice, so that it counts twice).

    Args:
        norm: a batch normalization of a `measuring_clone`, where a call leaves the batch's
            statistics in the moving ones.

    Attributes:
        called: whether the norm was called in training mode, as far as graphs are traced.
        count: positions of each row of statistics, since `reset`.
        mean: of these positions.
        variance: of these positions.
    """

    def __init__(self, norm: Any) -> None:
        # Half precision, to which Keras casts what a layer reads, has 3 digits and ends at 65,504.
        dtype = statistics_dtype(norm.moving_mean.dtype)

        def zeros(shape: Any) -> keras.Variable:
            return keras.Variable(np.zeros(shape), dtype=dtype, trainable=False, autocast=False)

        shape = norm.moving_mean.shape
        self.called = False
        self.count, self.mean, self.variance = zeros(shape[:-1]), zeros(shape), zeros(shape)
        if isinstance(norm, StatisticsNormalization):
            update = norm.update_statistics

            def updating(mean: Any, variance: Any, count: Any) -> None:
                update(mean, variance, count)
                self._add(count, mean, variance)

            norm.update_statistics = updating  # type: ignore[method-assign]
            return
        call, signature = norm.call, inspect.signature(norm.call)

        @wraps(call)
        def calling(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            outputs = call(*args, **kwargs)
            if given.get("training", "training" not in signature.parameters):
                self._add(_positions(norm, given), norm.moving_mean, norm.moving_variance)
            return outputs

        norm.call = calling

    @property
    def variables(self) -> tuple[Any, Any, Any]:
        """Count, mean and variance."""
        return self.count, self.mean, self.variance

    def reset(self) -> None:
        """Forget what was measured."""
        for variable in self.variables:
            variable.assign(np.zeros(variable.shape))

    def _add(self, *new: Any) -> None:
        self.called = True
        n, m, v = (ops.cast(x, self.mean.dtype) for x in new)
        m, v = (ops.where(n > 0, s, 0.0) for s in (m, v))  # those of no position are NaN
        there = ops.expand_dims(self.count, -1), self.mean, self.variance
        count, mean, variance = pooled(there, (n, m, v))
        self.count.assign(count[..., 0])
        self.mean.assign(mean)
        self.variance.assign(variance)


def _positions(norm: Any, given: Mapping[str, Any]) -> Any:
    """How many positions a call of a norm of Keras' has that no mask hides, (1,)."""
    x, mask = next(iter(given.values())), given.get("mask")
    n = ops.reshape(ops.cast(ops.size(x), "float32") / norm.moving_mean.shape[-1], (1,))
    return n if mask is None else n * ops.mean(ops.cast(mask, "float32"))
