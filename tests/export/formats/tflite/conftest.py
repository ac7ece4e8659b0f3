"""A reader of handwritten digits, and its quantized files, which the tests of TFLite share."""

import functools

import keras
import numpy as np
import pytest

import keras_norm
from examples import digits
from keras_norm.export import export_tflite
from keras_norm.export.formats.tflite.conversion import start_converter


@pytest.fixture(scope="session")
def data():
    """Load handwritten digits as 4 pairs of rows: x_train, x_test, y_train, y_test."""
    x_train, x_test, *labels = digits.load()
    return x_train.reshape(-1, 4, 16), x_test.reshape(-1, 4, 16), *labels


@pytest.fixture(scope="session")
def reader(data):
    """Build a recurrence of static length with random weights, and fit its last layer to digits.

    The recurrent kernel has more than 1,024 weights, so that "dynamic" stores it in 8 bits.
    """
    x, _, y, _ = data
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4, 16), name="rows")
    hidden = keras_norm.LayerNormSimpleRNN(64, name="hidden")(inputs)
    digit = keras.layers.Dense(10, activation="softmax", name="digit")
    model = keras.Model(inputs, digit(hidden))
    h = model.get_layer("hidden")(x)
    h = np.concatenate([h, np.ones((len(x), 1))], axis=1)
    weights = np.linalg.lstsq(h, 6.0 * np.eye(10)[y], rcond=None)[0]
    digit.set_weights([weights[:-1], weights[-1]])
    return model


@pytest.fixture(scope="session")
def converter():
    """Start one process that converts the files of many tests."""
    with start_converter() as worker:
        yield worker


@pytest.fixture(scope="session")
def quantized_step(reader, data, written):
    """Return a function from `quantize` to the file of the reader's step."""

    @functools.cache
    def export(quantize):
        options = {"signature": "step", "quantize": quantize, "samples": data[0][:100]}
        return written(f"{quantize}.tflite", lambda path: export_tflite(reader, path, **options))

    return export
