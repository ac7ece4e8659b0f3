"""Errors of the converter: the operation, its layers and advice."""

import keras
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import ConversionError, UnsupportedOpError, export_tflite
from keras_norm.export.runtimes import worker_process
from tests.export import models


class OwnLoop(keras.layers.SimpleRNN):
    """Overrides the loop of Keras' layer."""

    def inner_loop(self, *args, **kwargs):
        return super().inner_loop(*args, **kwargs)


def own_loops():
    """Build a model with two layers that override the loop; the first is in a nested model."""
    nested = models.stack(OwnLoop(3, return_sequences=True, name="frames"))
    return models.stack(nested, OwnLoop(2, name="frames_1"))


def determinant(x):
    return tf.linalg.det(x[:, :1, :, None] * tf.eye(3))


def clipped_integers(x):
    """The converter writes Relu6 for clipped integers; TFLite has Relu6 for floats only."""
    return tf.cast(tf.clip_by_value(tf.cast(x, "int32"), 0, 6), "float32") - x


def in_float64():
    return models.of(keras_norm.LayerNormSimpleRNN(2, dtype="float64"), dtype="float64")


def quantized_by_keras():
    model = models.dense()
    model.quantize("int8")
    return model


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method")
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            own_loops,
            r'TensorListReserve in layer "frames" .*, layer "frames_1" .* a static batch size',
        ),
        (
            lambda: models.with_function(determinant),
            r'MatrixDeterminant in layer "odd" \(Lambda\)',
        ),
        (
            lambda: models.with_function(clipped_integers),
            r'Relu6 \(converted from Maximum and Minimum\) in layer "odd" \(Lambda\)',
        ),
        (in_float64, "float64: build it under the float32 policy"),
        (quantized_by_keras, '"y" computes in int8 because of model.quantize'),
    ],
    ids=["a user's loop", "an operation", "a converted operation", "float64", "quantized"],
)
def test_a_model_that_does_not_convert_is_refused_with_its_layers_and_advice(
    build, message, tmp_path
):
    with pytest.raises((UnsupportedOpError, ConversionError), match=message):
        export_tflite(build(), tmp_path / "new" / "model.tflite")
    assert list(tmp_path.iterdir()) == []


def test_a_crash_of_the_converter_raises_conversion_error(tmp_path, monkeypatch):
    script = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    (tmp_path / "tflite").mkdir()
    (tmp_path / "tflite" / "convert_tflite.py").write_text(script)
    monkeypatch.setattr(worker_process, "FORMATS", tmp_path)
    with pytest.raises(ConversionError, match=r"conversion to TFLite: .* killed by SIGSEGV"):
        export_tflite(models.dense(), tmp_path / "out" / "model.tflite")
    assert not (tmp_path / "out").exists()
