"""Recompute the moving statistics of batch normalizations from data."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import keras
import numpy as np

from keras_norm.clone import measuring_clone
from keras_norm.walk import batch_norms

BATCH = 32


def recalibrate(model: keras.Model, data: Any, steps: int | None = None) -> int:
    """Replace the moving statistics of every batch normalization by averages over `data`.

    ::

        moving_mean = mean over batches of mean_batch
        moving_variance = mean over batches of var_batch

    with each batch run as in training, dropout off, by the weights as they are now. It repairs
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
        (PreciseBN).
    """
    return Recalibrator(model)(data, steps)


class Recalibrator:
    """Recalibrates one model as often as it is called, and rebuilds it once; see `recalibrate`.

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
        averages = [(own, _Average(copy)) for own, copy in self._pairs]
        used = 0
        for x in islice(_batches(self._model, data), steps):
            self._run(x)
            for _, average in averages:
                average.add()
            used += 1
        if not used:
            raise ValueError("There is no batch to recalibrate from. Give at least one.")
        for layer, average in averages:
            average.assign_to(layer)
        return used


class _Average:
    """Sums up what each batch leaves in the statistics of a measuring clone's layer."""

    def __init__(self, measured: Any) -> None:
        self.measured = measured
        self.mean = np.zeros(measured.moving_mean.shape)
        self.variance = np.zeros(measured.moving_variance.shape)
        self.batches = np.zeros(self.mean.shape[:-1], "int64")
        self.seen = self._updates()

    def add(self) -> None:
        """Add the statistics of the batch that has just run, of the rows that it reached."""
        updates = self._updates()
        reached = updates > self.seen if self._counted else np.ones_like(self.batches, bool)
        self.mean[reached] += np.asarray(self.measured.moving_mean)[reached]
        self.variance[reached] += np.asarray(self.measured.moving_variance)[reached]
        self.batches += reached
        self.seen = updates

    def assign_to(self, layer: Any) -> None:
        """Give the averages to a layer, where some batch reached them."""
        reached = self.batches > 0
        count = np.maximum(self.batches, 1)[..., None]
        for variable, total in (
            (layer.moving_mean, self.mean),
            (layer.moving_variance, self.variance),
        ):
            variable.assign(np.where(reached[..., None], total / count, np.asarray(variable)))
        if self._counted:
            layer.update_count.assign(np.where(reached, self.batches, layer.update_count))

    @property
    def _counted(self) -> bool:
        return getattr(self.measured, "update_count", None) is not None

    def _updates(self) -> Any:
        return np.array(self.measured.update_count) if self._counted else 0


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
