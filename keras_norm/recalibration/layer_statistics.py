"""Compute the new moving statistics of a layer from all batches, and assign its variables."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from keras_norm.ops.merge_moments import merge_moments
from keras_norm.ops.to_numpy import to_numpy
from keras_norm.recalibration.statistics_accumulator import StatisticsAccumulator
from keras_norm.typing import Array


class LayerStatistics:
    """Accumulates the statistics of one layer over all batches, in float64."""

    def __init__(
        self, path: str, layer: keras.layers.Layer, accumulator: StatisticsAccumulator
    ) -> None:
        self.path, self.layer, self.accumulator = path, layer, accumulator
        accumulator.reset()
        shape = accumulator.mean.shape
        self.mean, self.variance = np.zeros(shape), np.zeros(shape)
        self.count = np.zeros((*shape[:-1], 1))
        self.batches = np.zeros(shape[:-1], "int64")

    def add_batch(self) -> None:
        """Add the statistics of the latest batch to the statistics of all batches."""
        batch = self.accumulator.count, self.accumulator.mean, self.accumulator.variance
        n, mean, variance = (np.asarray(variable, "float64") for variable in batch)
        old = self.count, self.mean, self.variance
        # Hide NumPy's overflow warning: `require_statistics` raises an error for an overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            self.count, self.mean, self.variance = merge_moments(
                old, (n[..., None], mean, variance)
            )
        self.batches += n > 0
        self.accumulator.reset()

    def require_statistics(self) -> None:
        """Raise ValueError if the layer has no statistics, or infinite or NaN statistics."""
        if self.accumulator.called and not self.count.any():
            raise ValueError(
                f"The data gave no statistics for layer {self.path!r}. The layer needs unmasked "
                "positions, and per-timestep statistics need two unmasked sequences at a timestep. "
                "Give larger batches."
            )
        if not all(np.isfinite(s[self.batches > 0]).all() for s in (self.mean, self.variance)):
            raise ValueError(
                f"The statistics of layer {self.path!r} on the data are NaN or infinite. Check "
                "that the data and the weights are finite. The model was not changed."
            )

    def new_statistics(self) -> list[tuple[keras.Variable, Array]]:
        """Pair each moving statistic of the layer with its new value.

        A timestep without data keeps its old statistics.
        """
        layer, variance, updated = self.layer, self.variance, self.count > 0
        if getattr(layer, "unbiased_variance", False):
            variance = variance * self.count / np.maximum(self.count - 1.0, 1.0)
        values = [
            (layer.moving_mean, self.mean, updated),
            (layer.moving_variance, variance, updated),
        ]
        if getattr(layer, "moving_stddev", None) is not None:
            values.append((layer.moving_stddev, np.sqrt(variance + layer.epsilon), updated))
        if getattr(layer, "update_count", None) is not None:
            values.append((layer.update_count, self.batches, self.batches > 0))
        return [
            (variable, np.where(rows, new, np.asarray(variable))) for variable, new, rows in values
        ]


def assign_all(values: Sequence[tuple[keras.Variable, Array]]) -> None:
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
