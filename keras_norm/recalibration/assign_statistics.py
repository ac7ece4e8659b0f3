"""Assign collected statistics to the moving statistics of a model, all or none."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from keras_norm.ops.to_numpy import to_numpy
from keras_norm.recalibration.hash_weights import hash_weights
from keras_norm.recalibration.statistics import Statistics
from keras_norm.recalibration.trainable_norms import trainable_norms
from keras_norm.typing import Array


def assign_statistics(model: keras.Model, statistics: Statistics) -> None:
    """Replace the moving statistics of a model by collected statistics.

    Rows of per-timestep statistics without data keep their values, and so do layers that were not
    called in training mode. After an error the model is unchanged. After Ctrl-C either all
    statistics are old or all are new.

    Args:
        model: the model of `collect_statistics`, with equal weights.
        statistics: from `collect_statistics`, `merge_statistics` or `Statistics.load`.

    Raises:
        TypeError: `model` is not a model, or `statistics` are not `Statistics`.
        ValueError: the statistics contain no layer or no sample; they belong to another model or to
            other weights; a layer is frozen; a layer has fewer than two positions, or two sequences
            at a timestep; a statistic is too large for the dtype of its variable.

    Example:
        >>> model = keras.Sequential([keras.Input((3,)), BatchNormalization()])
        >>> x = np.random.default_rng(0).normal(5.0, 2.0, (64, 3))
        >>> assign_statistics(model, collect_statistics(model, x))
        >>> bool(abs(np.mean(model.predict(x, verbose=0))) < 0.1)
        True
    """
    if not isinstance(statistics, Statistics):
        raise TypeError(
            f"statistics must be of the class Statistics. Received: {statistics!r}. Merge a list "
            "with merge_statistics, and read a file with Statistics.load."
        )
    norms = trainable_norms(model)
    if not statistics.layers:
        raise ValueError("The statistics contain no layer. Collect them with collect_statistics.")
    for path, layer in statistics.layers.items():
        shape = tuple(norms[path].moving_mean.shape) if path in norms else None
        if layer.mean.shape != shape:
            found = f"moving statistics of shape {shape}" if shape else "no such layer, or froze it"
            raise ValueError(
                f"The statistics have the layer {path!r} with means of shape {layer.mean.shape}, "
                f"but the model {model.name!r} has {found}. Give the statistics of this model."
            )
    if statistics.weights != hash_weights(model, (norms[path] for path in statistics.layers)):
        raise ValueError(
            f"The statistics were collected with other weights than those of model {model.name!r}. "
            "Collect them again with this model."
        )
    _require_data(statistics)
    values = {path: s.new_values(norms[path]) for path, s in statistics.layers.items()}
    for path, pairs in values.items():
        for variable, value in pairs:
            _require_in_range(path, variable, value)
    _assign_all([pair for pairs in values.values() for pair in pairs])


def _require_in_range(path: str, variable: keras.Variable, value: Array) -> None:
    """Check that a statistic of a layer is finite in the dtype of its variable.

    Raises:
        ValueError: a finite number becomes infinite.
    """
    with np.errstate(over="ignore"):
        stored = value.astype(to_numpy(variable).dtype)
    if (np.isfinite(value) & ~np.isfinite(stored)).any():
        raise ValueError(
            f"The new values of {variable.name!r} of layer {path!r} are too large for its dtype "
            f"{variable.dtype}. Scale the data. The model was not changed."
        )


def _require_data(statistics: Statistics) -> None:
    """Check that the statistics have samples, and that every layer that was called has data.

    Raises:
        ValueError: there are no samples, or a layer has no data.
    """
    if not statistics.batches:
        raise ValueError("The data contain no samples. Give at least one batch with samples.")
    for path, layer in statistics.layers.items():
        if layer.called and not layer.has_data().any():
            raise ValueError(
                f"The data are too few for statistics of layer {path!r}. The layer needs two "
                "unmasked samples or timesteps. A layer with statistics per timestep needs two "
                "sequences that are unmasked at the same timestep. Give more data."
            )


def _assign_all(values: Sequence[tuple[keras.Variable, Array]]) -> None:
    """Assign values to variables; after an error restore the old values of all variables."""
    before = [(variable, to_numpy(variable)) for variable, _ in values]
    with _delayed_interrupts():
        try:
            for variable, value in values:
                variable.assign(value)
        except BaseException:
            for variable, value in before:
                variable.assign(value)
            raise


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of a `with` block, if the block runs in the main thread."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    received = []
    signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            signal.raise_signal(signal.SIGINT)
