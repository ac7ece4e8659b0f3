"""Invented results with known ratios."""

from benchmarks import settings
from benchmarks.results import Measurement, Results
from benchmarks.settings import INFERENCE, TRAINING, Shape, Task

TASKS = (Task(1000, 28, 28, 128, 3), Task(999, 50, 64, 64, 4, shortest=5))
SHAPES = (Shape(32, 64, 64, 128), Shape(64, 128, 128, 256))
ONE = Shape(1, 128, 128, 256)
MACHINE = {
    "processor": "Abacus",
    "cores": 2,
    "memory_gb": 24,
    "system": "Linux",
    "python": "3.11.7",
    "tensorflow": "2.21.0",
    "keras": "3.15.1",
    "numpy": "2.4.6",
    "ai-edge-litert": "2.3.0",
}
SETTINGS = {"rounds": 3, "cold_rounds": 3, "date": "2026-01-31"}

SECONDS = {
    settings.LN_LSTM: 0.030,
    settings.LN_GRU: 0.033,
    settings.BN_LSTM: 0.045,
    settings.KERAS_LSTM: 0.060,
    settings.KERAS_JIT: 0.050,
    settings.KERAS_GRU: 0.055,
    settings.RNN_CELL: 0.100,
    "GEMMs, rows x1": 0.025,
    "GEMMs, columns x2": 0.024,
}

CHOICES = {
    settings.LN_LSTM: 1.2,
    settings.LN_GRU: 0.9,
    settings.BN_LSTM: 1.5,
    settings.NO_NORM: 0.8,
    settings.RNN_CELL: 2.0,
    settings.KERAS_LSTM: 1.0,
    settings.KERAS_GRU: 0.9,
}


def rounds(seconds, factor=1.0):
    """Return three rounds; the first round is slow for every variant."""
    return {name: [2 * factor * s, factor * s, factor * s] for name, s in seconds.items()}


def measurement(suite, mode, shape, seconds, **others):
    first = dict.fromkeys(seconds, 1.5)
    return Measurement(suite, mode, tuple(shape), rounds(seconds), first=first, **others)


def results():
    found = [
        *(measurement("recurrent", TRAINING, shape, SECONDS) for shape in SHAPES),
        *(measurement("recurrent", INFERENCE, shape, SECONDS) for shape in (*SHAPES, ONE)),
    ]
    for mode in (TRAINING, INFERENCE):
        for time in (32, 128):
            seconds = {settings.LN_LSTM: time * 1e-3, settings.KERAS_LSTM: time * 2e-3}
            found.append(measurement("growth", mode, (32, time, 128, 128), seconds))
        seconds = {"LayerNormalization": 1e-3, "keras LayerNormalization": 2e-3}
        found.append(measurement("layers", mode, (8192, 512), seconds))
    firsts = (settings.FIRST_STEP, settings.FIRST_PREDICT)
    bidirectional = (settings.BIDIRECTIONAL, settings.BIDIRECTIONAL_CPU)
    for mode in (*firsts, *bidirectional):
        found.append(measurement("first", mode, SHAPES[0], CHOICES))
    fast = {**CHOICES, settings.LN_LSTM: 0.3}
    for suite in ("cold", "predict"):
        for task, seconds in zip(TASKS, (CHOICES, fast), strict=True):
            found.append(measurement(suite, task.name, task, seconds))
    for mode in (settings.PREDICT, settings.SERVED):
        found.append(measurement("served", mode, ONE, CHOICES))
    for mode in (TRAINING, INFERENCE):
        found.append(measurement("eager", mode, ONE, CHOICES))
    for mode in ("1 thread", "2 threads"):
        seconds = {settings.LN_LSTM: 4e-4, settings.KERAS_STATIC: 8e-4}
        found.append(measurement("tflite", mode, ONE, seconds))
    sizes = {settings.LN_LSTM: [4e5], settings.KERAS_STATIC: [6e5]}
    found.append(Measurement("tflite", "file", tuple(ONE), sizes, unit="bytes"))
    peaks = {settings.LN_LSTM: [2.0**28], settings.KERAS_LSTM: [2.0**29]}
    found.append(Measurement("memory", TRAINING, (16, 1024, 256, 512), peaks, unit="bytes"))
    for mode in (settings.TRIAL, settings.SAME_SIZE):
        found.append(measurement("search", mode, SHAPES[0], CHOICES))
    found.append(Measurement("search", settings.KEPT, (16, 28, 28, 40), peaks, unit="bytes"))
    return Results(MACHINE, SETTINGS, tuple(found))
