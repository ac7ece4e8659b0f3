"""Time and memory of the trials of a hyperparameter search."""

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

VARIANTS = (
    settings.LN_LSTM,
    settings.UNCOMPILED,
    settings.BN_LSTM,
    settings.NO_NORM,
    settings.KERAS_LSTM,
)
SHAPE = Shape(32, 28, 28, 40)  # of the first trial
# Units that each trial adds. Trials of one size share the programs of the recurrent layer.
MORE_UNITS = {settings.TRIAL: 2, settings.SAME_SIZE: 0}
FIRST = 2  # trials that are not measured: they start TensorFlow's threads and caches
BATCHES = 4


def trials(config: Settings) -> Iterator[Measurement]:
    """Measure the mean time of a trial, and the memory that a trial of a new size keeps."""
    results = {
        mode: fresh_process.rounds(search, VARIANTS, 1, config.trials, more_units)
        for mode, more_units in MORE_UNITS.items()
    }
    for mode, of_variants in results.items():
        values = {name: [seconds for seconds, _ in rounds] for name, rounds in of_variants.items()}
        yield Measurement("search", mode, tuple(SHAPE), values, unit="s")
    of_new_sizes = results[settings.TRIAL].items()
    kept = {name: [size for _, size in rounds] for name, rounds in of_new_sizes}
    yield Measurement("search", settings.KEPT, tuple(SHAPE), kept, unit="bytes")


def search(name: str, count: int, more_units: int) -> tuple[float, float]:
    """Run trials with `clear_session`; return seconds and kept bytes per trial.

    Args:
        name: name of the recurrent layer.
        count: number of trials.
        more_units: units that each trial adds.
    """
    start, before = time.perf_counter(), 0
    for k in range(count):
        if k == FIRST:
            start, before = time.perf_counter(), memory.resident("VmRSS")
        _fit(name, SHAPE._replace(units=SHAPE.units + more_units * k))
        keras.backend.clear_session()
        gc.collect()
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
    measured = max(count - FIRST, 1)
    seconds = (time.perf_counter() - start) / measured
    return seconds, (memory.resident("VmRSS") - before) / measured


def _fit(name: str, shape: Shape) -> None:
    rng, samples = np.random.default_rng(0), BATCHES * shape.batch
    x = rng.normal(size=(samples, shape.time, shape.inputs)).astype("float32")
    labels = rng.integers(0, cold_start.CLASSES, samples)
    model = cold_start.classifier(name, shape)
    model.fit(x, labels, batch_size=shape.batch, verbose=0)
