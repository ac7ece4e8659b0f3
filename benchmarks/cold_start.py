"""First calls, which trace and compile, and whole fits and predicts from a cold start.

Every function runs in a fresh process and returns seconds by mode. Imports are not timed.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import fresh_process, models, settings
from benchmarks.recurrent_layers import recurrent_layer
from benchmarks.results import Measurement
from benchmarks.settings import Settings, Shape, Task

CLASSES, WORDS = 10, 5000


def first(config: Settings) -> Iterator[Measurement]:
    """Measure the first training step and the first predict of new models."""
    for shape in config.first:
        yield from _measure("first", first_step, shape, config)
        yield from _measure("first", first_predict, shape, config)
    for shape in config.bidirectional:
        yield from _measure("first", first_bidirectional_step, shape, config)


def cold(config: Settings) -> Iterator[Measurement]:
    """Measure whole fits, including the construction of the model."""
    for task in config.tasks:
        yield from _measure("cold", fit, task, config)


def predict(config: Settings) -> Iterator[Measurement]:
    """Measure whole predicts, including the construction of the model."""
    for task in config.tasks:
        yield from _measure("predict", whole_predict, task, config)


def first_step(name: str, shape: Shape) -> dict[str, float]:
    """Time the first training step of a classifier."""
    model = classifier(name, shape)
    wall, _ = _seconds(lambda: model.train_on_batch(*_batch(shape)))
    return {settings.FIRST_STEP: wall}


def first_bidirectional_step(name: str, shape: Shape) -> dict[str, float]:
    """Time the first training step of two stacked Bidirectional layers."""
    layers = (
        keras.layers.Bidirectional(recurrent_layer(name, shape, return_sequences))
        for return_sequences in (True, False)
    )
    model = _classifier(shape, *layers)
    wall, cpu = _seconds(lambda: model.train_on_batch(*_batch(shape)))
    return {settings.BIDIRECTIONAL: wall, settings.BIDIRECTIONAL_CPU: cpu}


def first_predict(name: str, shape: Shape) -> dict[str, float]:
    """Time the first predict of one batch."""
    model = classifier(name, shape)
    wall, _ = _seconds(lambda: model.predict(_batch(shape)[0], shape.batch, verbose=0))
    return {settings.FIRST_PREDICT: wall}


def fit(name: str, task: Task) -> dict[str, float]:
    """Measure the time of a whole `fit`."""
    samples, arrays = data(task), task.shortest is None
    batch = task.batch if arrays else None
    wall, _ = _seconds(
        lambda: _task_model(name, task).fit(
            *samples, batch_size=batch, epochs=task.epochs, shuffle=arrays, verbose=0
        )
    )
    return {task.name: wall}


def whole_predict(name: str, task: Task) -> dict[str, float]:
    """Measure the time of a whole `predict`."""
    samples = data(task)
    batch = task.batch if task.shortest is None else None
    wall, _ = _seconds(
        lambda: _task_model(name, task).predict(samples[0], batch_size=batch, verbose=0)
    )
    return {task.name: wall}


def data(task: Task) -> tuple[Any, ...]:
    """Draw random samples and labels.

    Sentences are a dataset of batches, each padded to its longest sentence. Other data are arrays.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, task.samples)
    if task.shortest is None:
        return rng.normal(size=(task.samples, task.time, task.inputs)).astype("float32"), labels
    words = rng.integers(1, WORDS, (task.samples, task.time))
    lengths = rng.integers(task.shortest, task.time, task.samples, endpoint=True)
    sentences = tf.data.Dataset.from_tensor_slices((words, lengths, labels))
    sentences = sentences.shuffle(task.samples, seed=0)
    sentences = sentences.map(lambda words, length, label: (words[:length], label))
    return (sentences.padded_batch(task.batch),)


def _task_model(name: str, task: Task) -> keras.Model:
    shape = Shape(task.batch, task.time, task.inputs, task.units)
    layer = recurrent_layer(name, shape, return_sequences=False)
    if task.shortest is None:
        return _classifier(shape, layer)
    embedding = keras.layers.Embedding(WORDS, task.inputs, mask_zero=True)
    return models.compiled(keras.Input((None,)), embedding, layer, _head())


def classifier(name: str, shape: Shape) -> keras.Model:
    """Create a classifier with the recurrent layer of a name."""
    return _classifier(shape, recurrent_layer(name, shape, return_sequences=False))


def _classifier(shape: Shape, *layers: keras.layers.Layer) -> keras.Model:
    return models.compiled(keras.Input((shape.time, shape.inputs)), *layers, _head())


def _head() -> keras.layers.Layer:
    return keras.layers.Dense(CLASSES, activation="softmax")


def _batch(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    x = models.normal(shape.batch, shape.time, shape.inputs).numpy()
    return x, np.arange(shape.batch) % CLASSES


def _seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Return the wall time and the CPU time of a call."""
    gc.collect()  # collect the garbage of imports before the timed call
    before, start = os.times(), time.perf_counter()
    run()
    wall, after = time.perf_counter() - start, os.times()
    return wall, after.user - before.user + after.system - before.system


def _measure(
    suite: str,
    function: Callable[[str, Any], dict[str, float]],
    sizes: tuple[Any, ...],
    config: Settings,
) -> Iterator[Measurement]:
    times = fresh_process.rounds(function, config.choices, config.cold_rounds, sizes)
    for mode in next(iter(times.values()))[0]:
        values = {name: [seconds[mode] for seconds in rounds] for name, rounds in times.items()}
        yield Measurement(suite, mode, tuple(sizes), values)
