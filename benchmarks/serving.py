"""Latency of warm inference, by `predict` and by the SavedModel that a server runs."""

import pathlib
import tempfile
from collections.abc import Iterator

import keras
import tensorflow as tf

from benchmarks import models, settings
from benchmarks.recurrent_layers import recurrent_layer
from benchmarks.results import Measurement
from benchmarks.settings import Settings, Shape
from benchmarks.timing import Variant, measure, of_group
from keras_norm.export import export_saved_model


def latency(config: Settings) -> Iterator[Measurement]:
    """Measure one batch of every shape; models and files have dynamic batch and time."""
    for shape in config.served:
        with tempfile.TemporaryDirectory() as folder:
            variants = {}
            for name in config.choices:
                inputs = keras.Input((None, shape.inputs))
                model = models.compiled(inputs, recurrent_layer(name, shape))
                file = export(model, name, pathlib.Path(folder, name))
                variants[settings.PREDICT, name] = prediction(model, shape)
                variants[settings.SERVED, name] = request(file, shape)
            timings = measure(variants, config.rounds)
        for mode in (settings.PREDICT, settings.SERVED):
            yield Measurement.of("served", mode, shape, of_group(timings, mode))
        keras.backend.clear_session()


def export(model: keras.Model, name: str, path: pathlib.Path) -> pathlib.Path:
    """Export a SavedModel: our layers by `keras_norm.export`, Keras' layers by Keras."""
    if name in settings.OURS:
        return export_saved_model(model, path)
    model.export(str(path), verbose=False)
    return path


def prediction(model: keras.Model, shape: Shape) -> Variant:
    """Create a variant that predicts one batch."""
    x = models.normal(shape.batch, shape.time, shape.inputs).numpy()
    return Variant(lambda: model.predict_on_batch(x))


def request(file: pathlib.Path, shape: Shape) -> Variant:
    """Create a variant that calls the signature of a SavedModel and reads its outputs."""
    loaded = tf.saved_model.load(str(file))
    signature = loaded.signatures["serving_default"]
    (argument,) = signature.structured_input_signature[1]
    x = models.normal(shape.batch, shape.time, shape.inputs)

    def run() -> list[object]:
        return [output.numpy() for output in signature(**{argument: x}).values()]

    return Variant(run)
