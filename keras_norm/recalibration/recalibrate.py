"""Recompute the moving statistics of batch normalizations from data."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import keras

from keras_norm.recalibration.assign_statistics import assign_statistics
from keras_norm.recalibration.layer_moments import LayerMoments
from keras_norm.recalibration.merge_statistics import merge_statistics
from keras_norm.recalibration.process_group import gather_bytes
from keras_norm.recalibration.statistics import Statistics
from keras_norm.recalibration.statistics_collector import StatisticsCollector
from keras_norm.typing import Nest


def recalibrate(
    model: keras.Model,
    data: Nest | Iterable[Nest],
    steps: int | None = None,
    *,
    batch_size: int | None = None,
    layer_by_layer: bool = False,
) -> int:
    """Replace the moving statistics of every batch normalization by averages over `data`.

    ::

        N = sum of n_b
        moving_mean = sum of n_b * mean_b / N
        moving_variance = sum of n_b * (var_b + (mean_b - moving_mean)^2) / N

    where batch b has n_b unmasked positions with mean mean_b and variance var_b. If the inputs of a
    layer depend on no other batch normalization, these are the mean and variance of all positions,
    for every batch size. (With `unbiased_variance` the divisor is N - 1.)

    Use it if the moving statistics lag behind the weights: after a short training, after weight
    averaging, or before serving other data. Each batch runs as in training with the present
    weights, but without dropout, ghost batches and batch renormalization. A timestep with fewer
    than two unmasked sequences is normalized with the model's moving statistics. Frozen layers keep
    their statistics, and so do rows of per-timestep statistics without data. Weights and seeds do
    not change.

    In a process group of JAX, PyTorch (torch.distributed) or MultiWorkerMirroredStrategy, every
    process calls `recalibrate` with its part of the data, and all processes assign the statistics
    of all parts. An error in one process raises an error in all.

    GaussianNoise layers add their noise. Some inputs are equal without noise, for example the first
    state of sequences that begin with equal values. Their variance would be 0, and inference would
    amplify rounding errors by 1 / sqrt(epsilon).

    After an error the model is unchanged. After Ctrl-C either all statistics are old or all are
    new.

    Args:
        model: a built model that can be rebuilt from its config.
        data: arrays or an iterable of batches. Arrays are one array or tensor, a dict, or, for a
            model with a list of inputs, a list or tuple. They are split into batches. An iterable,
            such as a tf.data.Dataset or keras.utils.PyDataset, yields x, (x, y) or (x, y,
            sample_weight).
        steps: number of batches to use; None for all. Endless data need it.
        batch_size: number of rows in a batch of arrays. None is 32, or the batch size of a stateful
            model, without an incomplete last batch.
        layer_by_layer: whether each batch normalization gets a pass over the data in which the
            layers before it normalize as in inference. With False all layers share one pass, in
            which they normalize as in training.

    Returns:
        The number of batches of all processes, without batches of zero samples.

    Raises:
        TypeError: `model` is not a model, or `data` is neither arrays nor an iterable.
        ValueError: there are no samples; no timestep has two unmasked sequences in a batch;
            the data end before `steps`, or never; the inputs have different numbers of rows, are
            ragged, do not fit the model, or may be (x, y); a statistic is not finite; all batch
            normalizations are frozen; the model cannot be rebuilt; `layer_by_layer` is True and the
            data are an iterator; another process failed, or has other weights or another value of
            `layer_by_layer`; a layer has a single position; a statistic is too large for the dtype
            of its variable.
        RuntimeError: a process of the group ended, or did not call `recalibrate`.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()])
        >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
        >>> recalibrate(model, x)
        2
        >>> bool(abs(np.mean(model.predict(x, verbose=0))) < 0.1)
        True

    Reference:
        Wu and Johnson, "Rethinking 'Batch' in BatchNorm" (2021), arXiv 2105.07576, section 3
        (PreciseBN, with equal batch sizes).
    """
    _require_equal_passes(model, layer_by_layer)

    @functools.cache
    def collector() -> StatisticsCollector:
        """Clone the model on the first call.

        The first call is in `collect_own`, so an error while cloning is sent to all processes.
        """
        return StatisticsCollector(model)

    def collect(paths: list[str] | None, given: Mapping[str, LayerMoments]) -> Statistics:
        def collect_own() -> Statistics:
            if layer_by_layer:
                _require_several_passes(data)
            return collector()(data, steps, batch_size, paths, given)

        return _collect_from_processes(model, collect_own)

    total = collect(None, {})
    # Skip the first group of layers. Its inputs depend on no other group, so `total` already has
    # its final statistics.
    for paths in _groups(model, collector())[1:] if layer_by_layer else ():
        layers = {**total.layers, **collect(paths, total.layers).layers}
        total = Statistics(layers, total.batches, total.weights)
    assign_statistics(model, total)
    return total.batches


def _require_equal_passes(model: keras.Model, layer_by_layer: bool) -> None:
    """Require an equal `layer_by_layer` in all processes, so that all read data equally often.

    JAX connects processes at their first exchange, within 30 seconds. So this exchange comes
    before the data, which one process may read longer than another.

    Raises:
        ValueError: the processes have different values of `layer_by_layer`.
    """
    own = str(layer_by_layer).encode()
    if {own} != set(gather_bytes(model, own)):
        raise ValueError(
            "The processes of the group have different values of layer_by_layer. Received in "
            f"this process: layer_by_layer={layer_by_layer}. Pass the same value in all processes."
        )


def _groups(model: keras.Model, collector: StatisticsCollector) -> list[list[str]]:
    """Return `StatisticsCollector.groups`, computed in a process that has data.

    A process without data has not run the model, so its groups are empty.
    """
    own = json.dumps(collector.groups()).encode()
    groups: list[list[str]] = max(map(json.loads, gather_bytes(model, own)), key=len)
    return groups


def _collect_from_processes(model: keras.Model, collect: Callable[[], Statistics]) -> Statistics:
    """Collect statistics in all processes of the process group, and merge them.

    Raises:
        ValueError: another process could not collect its statistics.
    """
    failure: Exception | None = None
    try:
        own = b"+" + collect().to_bytes()
    except Exception as error:
        # The other processes wait for this process, so send the error to them.
        failure, own = error, b"-" + " ".join(str(error).split()).encode()
    parts = gather_bytes(model, own)
    if failure is not None:
        raise failure
    for process, part in enumerate(parts):
        if part[:1] == b"-":
            raise ValueError(
                f"Process {process} could not collect its statistics: {part[1:].decode()}"
            )
    return merge_statistics(
        Statistics.from_bytes(part[1:], f"The statistics of process {process}")
        for process, part in enumerate(parts)
    )


def _require_several_passes(data: Nest | Iterable[Nest]) -> None:
    """Raise ValueError for an iterator, which can be read only once."""
    if isinstance(data, Iterator):
        raise ValueError(
            "layer_by_layer=True reads the data once for each layer, and an iterator ends after "
            f"one pass. Received: a {type(data).__name__}. Give arrays, a list of batches, a "
            "tf.data.Dataset or a keras.utils.PyDataset."
        )
