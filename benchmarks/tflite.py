"""Latency and size of TFLite files."""

import pathlib
import tempfile
from collections.abc import Iterator

import keras
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from benchmarks import models, settings
from benchmarks.recurrent_layers import recurrent_layer
from benchmarks.results import Measurement
from benchmarks.settings import Settings, Shape
from benchmarks.timing import Variant, measure, of_group
from keras_norm.export import export_tflite

EXPORTED = (settings.LN_LSTM, settings.NO_NORM)
STATIC = (settings.KERAS_STATIC, settings.OWN_CELL)
THREADS = (1, 2)


def latency(config: Settings) -> Iterator[Measurement]:
    """Measure files of our layers with dynamic sizes, and static files of Keras' layers."""
    with tempfile.TemporaryDirectory() as folder:
        for shape in config.tflite:
            files = {
                name: convert(name, shape, pathlib.Path(folder)) for name in (*EXPORTED, *STATIC)
            }
            variants = {
                (threads, name): invocation(file, shape, threads)
                for threads in THREADS
                for name, file in files.items()
            }
            timings = measure(variants, config.rounds)
            for threads in THREADS:
                mode = "1 thread" if threads == 1 else f"{threads} threads"
                yield Measurement.of("tflite", mode, shape, of_group(timings, threads))
            sizes = {name: [float(file.stat().st_size)] for name, file in files.items()}
            yield Measurement("tflite", "file", tuple(shape), sizes, unit="bytes")


def convert(name: str, shape: Shape, folder: pathlib.Path) -> pathlib.Path:
    """Convert the recurrent layer of a name to a TFLite file.

    `keras_norm.export` converts our layers. Keras' layers are converted with static sizes, because
    their files with dynamic sizes need TensorFlow operations.
    """
    path = folder / f"{name}-{'x'.join(map(str, shape))}.tflite"
    layer = recurrent_layer(name, shape)
    if name in EXPORTED:
        inputs = keras.Input((None, shape.inputs))
        return export_tflite(keras.Model(inputs, layer(inputs)), path)
    size = (shape.batch, shape.time, shape.inputs)
    inputs = keras.Input(batch_shape=size)
    model = keras.Model(inputs, layer(inputs))
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", lambda x: model(x, training=False), [tf.TensorSpec(size)])
    saved_model = path.with_suffix("")
    archive.write_out(str(saved_model), verbose=False)
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(saved_model)).convert())
    return path


def invocation(file: pathlib.Path, shape: Shape, threads: int) -> Variant:
    """Create a variant that sets the input, invokes the file, and reads the output."""
    interpreter = Interpreter(model_path=str(file), num_threads=threads)
    x = models.normal(shape.batch, shape.time, shape.inputs).numpy()
    source = interpreter.get_input_details()[0]["index"]
    target = interpreter.get_output_details()[0]["index"]
    interpreter.resize_tensor_input(source, x.shape)
    interpreter.allocate_tensors()

    def run() -> float:
        interpreter.set_tensor(source, x)
        interpreter.invoke()
        return float(interpreter.get_tensor(target)[0, -1, -1])

    return Variant(run)
