"""What a user waits for at first: calls that trace and compile, whole fits and whole predicts.

Every one is run in a fresh process, and gives its seconds by mode. Imports are not timed.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import fresh, models, settings
from benchmarks.results import Measurement
from benchmarks.settings import Settings, Shape, Task

CLASSES, WORDS = 10, 5000


def first(config: Settings) -> Iterator[Measurement]:
    """First calls of models that are made: a training step, and a predict."""
    for shape in config.first:
        yield from _measure("first", first_step, shape, config)
        yield from _measure("first", first_predict, shape, config)
    for shape in config.bidirectional:
        yield from _measure("first", first_bidirectional_step, shape, config)


def cold(config: Settings) -> Iterator[Measurement]:
    """Whole fits, the making of the model included."""
    for task in config.tasks:
        yield from _measure("cold", fit, task, config)


def predict(config: Settings) -> Iterator[Measurement]:
    """Whole predicts of the same data, the making of the model included."""
    for task in config.tasks:
        yield from _measure("predict", whole_predict, task, config)


def first_step(name: str, shape: Shape) -> dict[str, float]:
    """A training step of a classifier."""
    model = _classifier(shape, models.recurrent_layer(name, shape, return_sequences=False))
    wall, _ = _seconds(lambda: model.train_on_batch(*_batch(shape)))
    return {settings.FIRST_STEP: wall}


def first_bidirectional_step(name: str, shape: Shape) -> dict[str, float]:
    """A training step of two Bidirectional, one upon the other."""
    layers = (
        keras.layers.Bidirectional(models.recurrent_layer(name, shape, return_sequences))
        for return_sequences in (True, False)
    )
    model = _classifier(shape, *layers)
    wall, cpu = _seconds(lambda: model.train_on_batch(*_batch(shape)))
    return {settings.BIDIRECTIONAL: wall, settings.BIDIRECTIONAL_CPU: cpu}


def first_predict(name: str, shape: Shape) -> dict[str, float]:
    """A predict of one batch."""
    model = _classifier(shape, models.recurrent_layer(name, shape, return_sequences=False))
    wall, _ = _seconds(lambda: model.predict(_batch(shape)[0], shape.batch, verbose=0))
    return {settings.FIRST_PREDICT: wall}


def fit(name: str, task: Task) -> dict[str, float]:
    """All epochs of a fit, with Keras' defaults."""
    samples = data(task)
    wall, _ = _seconds(
        lambda: _task_model(name, task).fit(
            *samples, epochs=task.epochs, shuffle=task.shortest is None, verbose=0
        )
    )
    return {task.name: wall}


def whole_predict(name: str, task: Task) -> dict[str, float]:
    """A predict of all the samples, with Keras' defaults."""
    samples = data(task)
    wall, _ = _seconds(lambda: _task_model(name, task).predict(samples[0], verbose=0))
    return {task.name: wall}


def data(task: Task) -> tuple[Any, ...]:
    """Random samples and labels: arrays, or for sentences batches, each padded to its longest."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, task.samples)
    if task.shortest is None:
        return rng.normal(size=(task.samples, task.time, task.inputs)).astype("float32"), labels
    words = rng.integers(1, WORDS, (task.samples, task.time))
    lengths = rng.integers(task.shortest, task.time, task.samples, endpoint=True)
    sentences = tf.data.Dataset.from_tensor_slices((words, lengths, labels))
    sentences = sentences.shuffle(task.samples, seed=0)
    sentences = sentences.map(lambda words, length, label: (words[:length], label))
    return (sentences.padded_batch(settings.BATCH),)


def _task_model(name: str, task: Task) -> keras.Model:
    shape = Shape(settings.BATCH, task.time, task.inputs, task.units)
    layer = models.recurrent_layer(name, shape, return_sequences=False)
    if task.shortest is None:
        return _classifier(shape, layer)
    embedding = keras.layers.Embedding(WORDS, task.inputs, mask_zero=True)
    return models.compiled(keras.Input((None,)), embedding, layer, _head())


def _classifier(shape: Shape, *layers: keras.layers.Layer) -> keras.Model:
    return models.compiled(keras.Input((shape.time, shape.inputs)), *layers, _head())


def _head() -> keras.layers.Layer:
    return keras.layers.Dense(CLASSES, activation="softmax")


def _batch(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    x = models.normal(shape.batch, shape.time, shape.inputs).numpy()
    return x, np.arange(shape.batch) % CLASSES


def _seconds(run: Callable[[], object]) -> tuple[float, float]:
    """On the clock, and of all cores together."""
    gc.collect()  # else a collection of what imports left falls into one run, and not the next
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
    found = fresh.rounds(function, config.choices, config.cold_rounds, sizes)
    for mode in next(iter(found.values()))[0]:
        values = {name: [seconds[mode] for seconds in rounds] for name, rounds in found.items()}
        yield Measurement(suite, mode, tuple(sizes), values)
