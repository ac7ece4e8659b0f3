"""Every cell with every norm trains, predicts, exports and reloads as users run it.

The fixtures of `conftest.py` replace nothing here: training is compiled by XLA, TensorFlow
optimizes its graphs, and the exporters start their own processes. A model has one branch for each
norm, so that each process starts once for all norms.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import keras_norm
from keras_norm.export import export_saved_model, export_tflite

TIME, FEATURES, UNITS = 6, 5, 4
NORMS = {
    "none": None,
    "layer": keras_norm.LayerNormalization(),
    "rms": keras_norm.RMSNormalization(),
    "variance": keras_norm.VarianceNormalization(),
    "batch": keras_norm.BatchNormalization(momentum=0.5),
    "timestep": keras_norm.TimestepBatchNormalization(TIME, momentum=0.5),
}
CELLS = {
    "LSTM": keras_norm.NormLSTM,
    "GRU": keras_norm.NormGRU,
    "SimpleRNN": keras_norm.NormSimpleRNN,
}


def sequences(samples):
    """Draw sequences padded on the right to `TIME` timesteps, and their labels."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(samples, TIME, FEATURES)).astype("float32")
    y = x[..., :1].sum(axis=1)
    x[np.arange(TIME) >= rng.integers(2, TIME + 1, (samples, 1))] = 0.0
    return x, y


def build_model(layer):
    inputs = keras.Input((None, FEATURES), name="x")
    masked = keras.layers.Masking()(inputs)
    branches = {
        name: keras.layers.Dense(1)(layer(UNITS, norm=norm, dropout=0.1)(masked))
        for name, norm in NORMS.items()
    }
    return keras.Model(inputs, branches)


@pytest.fixture(scope="module", params=CELLS)
def trained(request):
    """Train a model; return it, its data, and the losses of the epochs by branch."""
    model = build_model(CELLS[request.param])
    model.compile(keras.optimizers.Adam(0.02), dict.fromkeys(NORMS, "mse"))
    x, y = sequences(64)
    history = model.fit(x, dict.fromkeys(NORMS, y), batch_size=16, epochs=8, verbose=0).history
    return model, x, {name: history[f"{name}_loss"] for name in NORMS}


def test_training_reduces_the_loss_of_every_branch(trained):
    _, _, losses = trained
    assert {name: late[-1] < late[0] for name, late in losses.items()} == dict.fromkeys(NORMS, True)


def test_a_keras_file_reloads_and_predicts_equal_outputs(trained, tmp_path):
    model, x, _ = trained
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    expected, actual = (m.predict(x, verbose=0) for m in (model, reloaded))
    for name in NORMS:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


def test_exported_files_reload_and_give_the_outputs_of_the_trained_model(trained, tmp_path):
    model, x, _ = trained
    expected = model.predict(x, verbose=0)
    served = tf.saved_model.load(str(export_saved_model(model, tmp_path / "served")))
    tflite = Interpreter(str(export_tflite(model, tmp_path / "model.tflite")))
    runs = served.signatures["serving_default"], tflite.get_signature_runner("serving_default")
    for run in runs:
        actual = run(x=x)
        for name in NORMS:
            np.testing.assert_allclose(actual[name], expected[name], atol=1e-5, err_msg=name)
