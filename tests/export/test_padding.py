"""Padding on either side changes no output of an exported recurrent BatchNorm."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import export_onnx, export_saved_model, export_tflite, open_runner
from tests.rnn import kinds

TIME, PADDED, FEATURES = 4, 7, 3
X = np.random.default_rng(0).normal(size=(2, TIME, FEATURES)).astype("float32")
EXPORTS = {
    "saved_model": lambda model, path: export_saved_model(model, path, step=False),
    "model.tflite": lambda model, path: export_tflite(model, path, step=False),
    "model.onnx": export_onnx,
}


def with_random_statistics(layer):
    """Return a model with different statistics at each timestep, behind a mask of zeros."""
    x = keras.Input((None, FEATURES), name="x")
    model = keras.Model(x, keras.layers.Identity(name="y")(layer(keras.layers.Masking()(x))))
    kinds.randomize(model)
    kinds.randomize_statistics(model)
    return model


def pad(start):
    padded = np.zeros((len(X), PADDED, FEATURES), "float32")
    padded[:, start : start + TIME] = X
    return padded


@pytest.fixture(scope="module")
def bidirectional():
    lstm = keras_norm.BatchNormLSTM(4, max_timesteps=TIME)
    return with_random_statistics(keras.layers.Bidirectional(lstm))


@pytest.mark.slow  # 13 to 23 s each
@pytest.mark.parametrize("name", EXPORTS)
def test_padding_changes_no_output_of_a_file(bidirectional, name, tmp_path):
    if name == "model.onnx":
        pytest.importorskip("tf2onnx")
        pytest.importorskip("onnxruntime")
    expected = bidirectional(X)
    with open_runner(EXPORTS[name](bidirectional, tmp_path / name)) as run:
        for start in (0, PADDED - TIME, 1):
            np.testing.assert_allclose(run({"x": pad(start)})["y"], expected, atol=1e-5)
        np.testing.assert_allclose(run({"x": X})["y"], expected, atol=1e-5)
