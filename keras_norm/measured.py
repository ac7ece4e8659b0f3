"""What a batch normalization takes statistics of while a model runs as in training."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.timestep_batch_norm import FEWEST, TimestepBatchNormalization
from keras_norm.rnn.loop import KERNEL_SLOTS
from keras_norm.rnn.sequence import NormRNN
from keras_norm.walk import named_layers


class Measured:
    """What a norm of a measuring clone takes statistics of in training, over several calls.

    A norm is called more than once where inputs share it, and where a cell runs in
    keras.layers.RNN (which evaluates the first timestep twice, so that it counts twice).

    Args:
        clone: of `measuring_clone`: a call leaves the batch's statistics in the moving ones.
        norm: one of its batch normalizations.

    Attributes:
        called: whether the norm was called in training mode, as far as graphs are traced.
        count: positions of each row of statistics, since `reset`.
        mean: of these positions.
        variance: of these positions.
    """

    def __init__(self, clone: keras.Model, norm: Any) -> None:
        def zeros(shape: Any) -> keras.Variable:
            return keras.Variable(np.zeros(shape), dtype=norm.moving_mean.dtype, trainable=False)

        shape = norm.moving_mean.shape
        self.called = False
        self.count, self.mean, self.variance = zeros(shape[:-1]), zeros(shape), zeros(shape)
        caller, counted = _caller(clone, norm)
        call, signature = caller.call, inspect.signature(caller.call)

        @wraps(call)
        def measuring(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            outputs = call(*args, **kwargs)
            if given.get("training", "training" not in signature.parameters):
                self.called = True
                self._add(counted(given), norm)
            return outputs

        caller.call = measuring

    def reset(self) -> None:
        """Forget what was measured."""
        for variable in (self.count, self.mean, self.variance):
            variable.assign(ops.zeros_like(variable))

    def _add(self, n: Any, norm: Any) -> None:
        n = ops.cast(n, self.count.dtype)
        new = ops.expand_dims(n, -1), norm.moving_mean, norm.moving_variance
        there = ops.expand_dims(self.count, -1), self.mean, self.variance
        _, mean, variance = pooled(there, new)
        self.count.assign(self.count + n)
        self.mean.assign(mean)
        self.variance.assign(variance)


def pooled(there: tuple[Any, Any, Any], new: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Number, mean and variance of the positions of both (Chan, Golub and LeVeque 1983).

    ::

        share = n / (N + n)        d = m - mean
        mean += share * d          variance += share * (v - variance + (1 - share) * d^2)

    Args:
        there: N, mean and variance.
        new: n, m and v, of shapes that broadcast to these.
    """
    (count, mean, variance), (n, m, v) = there, new
    share = n / (count + n + 1e-30)  # which no count feels, but where both are 0
    d = m - mean
    spread = v - variance + (1.0 - share) * d * d
    return count + n, mean + share * d, variance + share * spread


def _caller(clone: keras.Model, norm: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The layer whose call makes a norm's statistics, and how it counts their positions.

    Returns:
        The layer, and a function from the arguments of its call to the positions of each row.
    """
    for _, layer in named_layers(clone):
        if isinstance(layer, NormRNN) and isinstance(norm, StatisticsNormalization):
            slot = next((s for s, n in layer.cell.slot_layers().items() if n is norm), None)
            if slot is None:
                continue
            if slot in KERNEL_SLOTS and not isinstance(norm, TimestepBatchNormalization):
                return layer, lambda given: ops.sum(_alive(given, 2))  # of all timesteps at once
            return layer, partial(_by_timestep, norm, flipped=layer.go_backwards)
    if isinstance(norm, TimestepBatchNormalization):
        return norm, partial(_by_timestep, norm)
    return norm, partial(_positions, norm)


def _positions(norm: Any, given: Mapping[str, Any]) -> Any:
    x, mask = _inputs(given)
    n = ops.cast(ops.size(x), "float32") / norm.moving_mean.shape[-1]
    return n if mask is None else n * ops.mean(ops.cast(mask, "float32"))


def _by_timestep(norm: Any, given: Mapping[str, Any], flipped: bool = False) -> Any:
    """Sequences alive at the timesteps of each row, or at the one that the layer is given."""
    step = given.get("step")
    n = ops.sum(_alive(given, 1 if step is not None else 2), axis=0)
    n = ops.where(n >= FEWEST, n, 0.0)
    if step is not None:
        return ops.where(norm.is_row_of(ops.max(step)), n, 0.0)
    n = ops.flip(n) if flipped else n
    return norm.total_by_row(n[:, None])[..., 0]


def _alive(given: Mapping[str, Any], rank: int) -> Any:
    """Ones (batch, time), or (batch,), with zeros where a mask hides a sequence."""
    x, mask = _inputs(given)
    alive = ops.ones(ops.shape(x)[:rank], "float32")
    if mask is None:
        return alive
    return alive * ops.cast(ops.reshape(mask, ops.shape(mask)[:rank]), "float32")


def _inputs(given: Mapping[str, Any]) -> tuple[Any, Any]:
    mask = given.get("mask")
    return next(iter(given.values())), mask[0] if isinstance(mask, list | tuple) else mask
