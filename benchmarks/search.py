"""Time and memory of the trials of a hyperparameter search, each with a new number of units."""

import contextlib
import ctypes
import gc
import time
from collections.abc import Iterator

import keras
import numpy as np

from benchmarks import cold_start, fresh_process, memory, settings
from benchmarks.results import Measurement
from benchmarks.settings import Settings, Shape

VARIANTS = (settings.LN_LSTM, settings.BN_LSTM, settings.NO_NORM, settings.KERAS_LSTM)
SHAPE = Shape(32, 28, 28, 40)  # of the first trial; each trial has two units more
FIRST = 2  # trials that are not measured: they start TensorFlow's threads and caches
BATCHES = 4


def trials(config: Settings) -> Iterator[Measurement]:
    """Measure the mean time of a trial, and the mean memory that it keeps."""
    results = fresh_process.rounds(search, VARIANTS, 1, config.trials)
    for mode, unit in ((settings.TRIAL, "s"), (settings.KEPT, "bytes")):
        values = {name: [found[mode] for found in rounds] for name, rounds in results.items()}
        yield Measurement("search", mode, tuple(SHAPE), values, unit=unit)


def search(name: str, count: int) -> dict[str, float]:
    """Run trials with `clear_session`; return seconds and kept bytes per trial."""
    start, before = time.perf_counter(), 0
    for k in range(count):
        if k == FIRST:
            start, before = time.perf_counter(), memory.resident("VmRSS")
        _fit(name, SHAPE._replace(units=SHAPE.units + 2 * k))
        keras.backend.clear_session()
        gc.collect()
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
    measured = max(count - FIRST, 1)
    return {
        settings.TRIAL: (time.perf_counter() - start) / measured,
        settings.KEPT: (memory.resident("VmRSS") - before) / measured,
    }


def _fit(name: str, shape: Shape) -> None:
    rng, samples = np.random.default_rng(0), BATCHES * shape.batch
    x = rng.normal(size=(samples, shape.time, shape.inputs)).astype("float32")
    labels = rng.integers(0, cold_start.CLASSES, samples)
    model = cold_start.classifier(name, shape)
    model.fit(x, labels, batch_size=shape.batch, verbose=0)
