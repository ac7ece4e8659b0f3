"""Recompute the moving statistics of batch normalizations from data."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from itertools import islice
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_norm.clone import measuring_clone
from keras_norm.layers.batch_statistics import StatisticsNormalization
from keras_norm.layers.timestep_batch_norm import FEWEST, TimestepBatchNormalization
from keras_norm.rnn.sequence import NormRNN
from keras_norm.walk import batch_norms, named_layers

BATCH = 32

# What makes a normalization one of the whole batch, whose statistics are its mean and variance.
WHOLE_BATCHES = {
    "virtual_batch_size": None,
    "unbiased_variance": False,
    "renorm_clipping": {"rmin": 1.0, "rmax": 1.0, "dmax": 0.0},
}


def recalibrate(model: keras.Model, data: Any, steps: int | None = None) -> int:
    """Replace the moving statistics of every batch normalization by averages over `data`.

    ::

        N = sum of n_b
        moving_mean = sum of n_b * mean_b / N
        moving_variance = sum of n_b * (var_b + (mean_b - moving_mean)^2) / N

    where batch b has the mean and variance mean_b and var_b of n_b positions that no mask hides: of
    what does not depend on other batch statistics, the mean and variance of all positions, however
    they are cut into batches. (`unbiased_variance` divides by N - 1; timesteps that share a row
    have their mean statistics.) Each batch is run as in training, dropout off, by the weights as
    they are now, and normalized as a whole: without ghost batches or renormalization. It repairs
    statistics that lag behind the weights: after a short training, weight averaging, or a move to
    other data. Frozen layers, and rows of per-timestep statistics that the data do not reach, keep
    what they had. Weights and seeds are not touched.

    A GaussianNoise stays on. Where it is all that tells samples apart, as on the first state of
    sequences that begin alike, the variance without it would be 0, and inference would magnify
    rounding by 1 / sqrt(epsilon).

    Args:
        model: a built model that can be rebuilt from its config.
        data: an array or tensor, a dict of them, or, for a model that takes a list of inputs, a
            list of them, cut into batches of 32; or an iterable of batches, such as a
            tf.data.Dataset or a keras.utils.PyDataset, each x, (x, y) or (x, y, sample_weight).
        steps: number of batches to use; None for all.

    Returns:
        The number of batches used.

    Raises:
        ValueError: there is no batch, the model has no batch normalization, or it cannot be
            rebuilt.

    Example:
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
    >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
    >>> recalibrate(model, x)
    2
    >>> bool(abs(np.mean(model.predict(x, verbose=0))) < 0.1)
    True

    Reference:
        Wu and Johnson, "Rethinking 'Batch' in BatchNorm" (2021), arXiv 2105.07576, section 3
        (PreciseBN), whose batches are all of one size.
    """
    return Recalibrator(model)(data, steps)


class Recalibrator:
    """Recalibrates one model as often as it is called, and rebuilds it once; see `recalibrate`.

    Every call draws the same noise, so that equal weights and data give equal statistics.

    Args:
        model: see `recalibrate`.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._clone = measuring_clone(model, noise=True)
        layers = zip(batch_norms(model), batch_norms(self._clone), strict=True)
        self._pairs = [(own, copy) for (_, own), (_, copy) in layers if own.trainable]
        if not self._pairs:
            raise ValueError(f"model {model.name!r} has no batch normalization to recalibrate.")
        for _, copy in self._pairs:
            for option, value in WHOLE_BATCHES.items():
                setattr(copy, option, value)
        weights = {id(weight) for weight in self._clone.weights}
        seeds = [variable for variable in self._clone.variables if id(variable) not in weights]
        self._seeds = [(seed, np.array(seed)) for seed in seeds]
        self._positions = [count_positions(self._clone, copy) for _, copy in self._pairs]
        self._run = _training_call(self._clone)

    def __call__(self, data: Any, steps: int | None = None) -> int:
        """Recalibrate the model as it is now.

        Args:
            data: see `recalibrate`.
            steps: see `recalibrate`.

        Returns:
            The number of batches used.
        """
        self._clone.set_weights(self._model.get_weights())
        for seed, start in self._seeds:
            seed.assign(start)
        pools = [_Pool(own, copy) for own, copy in self._pairs]
        used = 0
        for x in islice(_batches(self._model, data), steps):
            for positions in self._positions:
                positions.assign(ops.zeros_like(positions))
            self._run(x)
            for pool, positions in zip(pools, self._positions, strict=True):
                pool.add(np.asarray(positions, "float64")[..., None])
            used += 1
        if not used:
            raise ValueError("There is no batch to recalibrate from. Give at least one.")
        for pool in pools:
            pool.assign()
        return used


class _Pool:
    """Pools, by positions, what each batch leaves in the statistics of a measuring clone's layer.

    n positions of mean m and variance v join the N there are (Chan, Golub and LeVeque 1983)::

        share = n / (N + n)        d = m - mean
        mean += share * d          variance += share * (v - variance + (1 - share) * d^2)
    """

    def __init__(self, layer: Any, measured: Any) -> None:
        self.layer, self.measured = layer, measured
        self.mean = np.zeros(measured.moving_mean.shape)
        self.variance = np.zeros(measured.moving_variance.shape)
        self.count = np.zeros((*self.mean.shape[:-1], 1))
        self.batches = np.zeros(self.mean.shape[:-1], "int64")

    def add(self, n: Any) -> None:
        """Add the batch that has just run, of which each row of statistics has n positions."""
        self.count += n
        self.batches += n[..., 0] > 0
        share = n / np.maximum(self.count, 1.0)
        d = np.asarray(self.measured.moving_mean, "float64") - self.mean
        v = np.asarray(self.measured.moving_variance, "float64")
        self.mean += share * d
        self.variance += share * (v - self.variance + (1.0 - share) * d * d)

    def assign(self) -> None:
        """Give the layer its statistics, where some batch reached them."""

        def give(variable: Any, value: Any) -> None:
            reached = self.batches > 0 if value is self.batches else self.count > 0
            variable.assign(np.where(reached, value, np.asarray(variable)))

        layer, variance = self.layer, self.variance
        if getattr(layer, "unbiased_variance", False):
            variance = variance * self.count / np.maximum(self.count - 1.0, 1.0)
        give(layer.moving_mean, self.mean)
        give(layer.moving_variance, variance)
        if getattr(layer, "moving_stddev", None) is not None:
            give(layer.moving_stddev, np.sqrt(variance + layer.epsilon))
        if getattr(layer, "update_count", None) is not None:
            give(layer.update_count, self.batches)


def count_positions(clone: keras.Model, norm: Any) -> keras.Variable:
    """Let every call of the clone count the positions that a norm's statistics are taken over.

    Returns:
        The positions of each row of statistics in the last call.
    """
    count = keras.Variable(np.zeros(norm.moving_mean.shape[:-1]), dtype="float32", trainable=False)
    caller = norm
    for _, layer in named_layers(clone):
        if isinstance(layer, NormRNN) and isinstance(norm, StatisticsNormalization):
            caller = layer if norm in layer.cell.slot_layers().values() else caller
    call, signature = caller.call, inspect.signature(caller.call)

    @wraps(call)
    def counting(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        x = next(iter(given.values()))
        mask = given.get("mask")
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        if isinstance(caller, NormRNN | TimestepBatchNormalization):
            n = _positions_by_row(norm, count, x, mask, given.get("step"), caller)
        else:
            n = ops.cast(ops.size(x), count.dtype) / norm.moving_mean.shape[-1]
            n = n if mask is None else n * ops.mean(ops.cast(mask, count.dtype))
        count.assign(n)
        return call(*args, **kwargs)

    caller.call = counting
    return count


def _positions_by_row(norm: Any, count: Any, x: Any, mask: Any, step: Any, caller: Any) -> Any:
    """Sequences alive at the timesteps of each row of statistics, of those that have any."""
    shape = ops.shape(x)[: 2 if step is None else 1]
    alive = ops.ones(shape, count.dtype)
    if mask is not None:
        alive *= ops.cast(ops.reshape(mask, ops.shape(mask)[: len(shape)]), count.dtype)
    n = ops.sum(alive, axis=0)
    n = ops.where(n >= FEWEST, n, 0.0)
    if step is not None:
        rows = norm.moving_mean.shape[0]
        return ops.where(ops.arange(rows) == ops.minimum(ops.max(step), rows - 1), n, count)
    if getattr(caller, "go_backwards", False):
        n = ops.flip(n)
    return norm.statistics.total_by_row(n[:, None])[..., 0]


def _training_call(clone: keras.Model) -> Callable[[Any], Any]:
    """A call of the clone in training mode, compiled where the backend is TensorFlow."""

    def call(x: Any) -> Any:
        return clone(x, training=True)

    if keras.backend.backend() != "tensorflow":
        return call
    import tensorflow as tf

    return tf.function(call, reduce_retracing=True)


def _batches(model: keras.Model, data: Any) -> Iterator[Any]:
    """The inputs of each batch."""
    takes_list = isinstance(getattr(model, "input", None), list)
    one = isinstance(data, Mapping) or hasattr(data, "__array__")
    if one or (takes_list and isinstance(data, list)):
        arrays = keras.tree.map_structure(np.asarray, data)
        for start in range(0, len(keras.tree.flatten(arrays)[0]), BATCH):
            yield keras.tree.map_structure(lambda a, s=start: a[s : s + BATCH], arrays)
        return
    for batch in _finite(data):
        yield keras.utils.unpack_x_y_sample_weight(batch)[0]


def _finite(data: Any) -> Iterable[Any]:
    """A PyDataset answers every index; its length says where it ends."""
    if isinstance(data, keras.utils.PyDataset) and data.num_batches is not None:
        return (data[i] for i in range(data.num_batches))
    return data
