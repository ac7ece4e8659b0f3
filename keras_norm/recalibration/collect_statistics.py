"""Collect the statistics of a model's batch normalizations on data, or on one part of the data."""

from collections.abc import Iterable

import keras

from keras_norm.recalibration.statistics import Statistics
from keras_norm.recalibration.statistics_collector import StatisticsCollector
from keras_norm.typing import Nest


def collect_statistics(
    model: keras.Model,
    data: Nest | Iterable[Nest],
    steps: int | None = None,
    *,
    batch_size: int | None = None,
    layers: Iterable[str] | None = None,
) -> Statistics:
    """Collect the statistics of the inputs of every batch normalization on `data`.

    The model does not change. `merge_statistics` merges the statistics of parts of the data, in any
    order, and `assign_statistics` stores them in the model. `recalibrate` does all three, and
    documents how the data run.

    The merged statistics do not depend on the parts: for a layer whose inputs depend on no other
    batch normalization, for any division of the rows into parts and batches; for other layers, for
    any division of the batches into parts. A layer after a batch normalization that is not in
    `layers` has inputs that do not depend on the batches either. There are two exceptions:

    - A timestep that few sequences of a batch reach (`min_sequences`) does not count for a
      TimestepBatchNormalization in a custom layer or a subclassed model.
    - A stateful model carries its states from batch to batch, and each part begins with zeros.

    GaussianNoise layers draw their noise from a hash of the batch, so equal batches in different
    parts draw equal noise.

    Every process reads its part of the data. No process communicates with another.

    Args:
        model: a built model that can be rebuilt from its config.
        data: arrays or an iterable of batches. Arrays are one array or tensor, a dict, or, for a
            model with a list of inputs, a list or tuple. An iterable, such as a tf.data.Dataset or
            keras.utils.PyDataset, yields x, (x, y) or (x, y, sample_weight). Data without samples
            give statistics that count nothing.
        steps: number of batches to use; None for all. Endless data need it.
        batch_size: number of rows in a batch of arrays. None is 32, or the batch size of a stateful
            model, without an incomplete last batch.
        layers: paths of the layers to collect, such as ["norm", "lstm/lstm_cell/state_norm"]; the
            other layers normalize with their moving statistics, as in inference. None collects all
            layers that are not frozen.

    Returns:
        The statistics, to merge, save or assign.

    Raises:
        TypeError: `model` is not a model, or `data` is neither arrays nor an iterable.
        ValueError: the data end before `steps`, or never; the inputs have different numbers of
            rows, are ragged, do not fit the model, or may be (x, y); `batch_size` is given for an
            iterable; a statistic is not finite; all batch normalizations are frozen; `layers` has
            a path of another layer; the model cannot be rebuilt.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), BatchNormalization(name="norm")])
        >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
        >>> statistics = collect_statistics(model, x)
        >>> bool(np.allclose(statistics.layers["norm"].variance, x.var(axis=0)))
        True
    """
    collector = StatisticsCollector(model)
    paths = None if layers is None or isinstance(layers, str) else list(layers)
    if layers is not None and not (paths and collector.layers.keys() >= set(paths)):
        raise ValueError(
            "layers must be a list of paths of batch normalizations that are not frozen. Received: "
            f"layers={paths or layers!r}. The model has these paths: {list(collector.layers)}."
        )
    return collector(data, steps, batch_size, paths)
