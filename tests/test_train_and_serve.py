"""Every cell with every norm trains, predicts, exports and reloads as users run it.

The fixtures of `conftest.py` replace nothing here: training is compiled by XLA, TensorFlow
optimizes its graphs, and the exporters start their own processes. One model has a branch for each
cell with each norm, so that it is converted once, and each process starts once for all branches.
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


def branches(cell):
    """Return the names of a cell's branches."""
    return [f"{cell}_{norm}" for norm in NORMS]


def build_model():
    inputs = keras.Input((None, FEATURES), name="x")
    masked = keras.layers.Masking()(inputs)
    outputs = {}
    for cell, layer in CELLS.items():
        for name, norm in zip(branches(cell), NORMS.values(), strict=True):
            recurrent = layer(UNITS, norm=norm, dropout=0.1)
            outputs[name] = keras.layers.Dense(1)(recurrent(masked))
    return keras.Model(inputs, outputs)


@pytest.fixture(scope="module")
def trained():
    """Train a model; return it, its data, and the losses of the epochs."""
    model = build_model()
    # SGD has no variables to create, so TensorFlow traces the training step once.
    model.compile(keras.optimizers.SGD(0.05), dict.fromkeys(model.output, "mse"))
    x, y = sequences(64)
    targets = dict.fromkeys(model.output, y)
    return model, x, model.fit(x, targets, batch_size=16, epochs=8, verbose=0).history


@pytest.fixture(scope="module")
def reloaded(trained, tmp_path_factory):
    """Save the trained model to a Keras file, and load the file."""
    model, _, _ = trained
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return keras.saving.load_model(path)


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """Export the trained model; return functions that run the reloaded files.

    The TFLite file has the signature `step` too.
    """
    model, _, _ = trained
    folder = tmp_path_factory.mktemp("exported")
    served = tf.saved_model.load(str(export_saved_model(model, folder / "served", step=False)))
    tflite = Interpreter(str(export_tflite(model, folder / "model.tflite")))
    return served.signatures["serving_default"], tflite.get_signature_runner("serving_default")


@pytest.fixture(scope="module")
def reloaded_outputs(trained, reloaded):
    """Return the outputs of the trained model and of the reloaded model."""
    model, x, _ = trained
    return model(x), reloaded(x)


@pytest.fixture(scope="module")
def exported_outputs(trained, exported):
    """Return the predictions of the trained model, and the outputs of the exported files."""
    model, x, _ = trained
    return model.predict(x, verbose=0), [run(x=x) for run in exported]


@pytest.mark.parametrize("cell", CELLS)
def test_training_reduces_the_loss_of_every_branch(cell, trained):
    _, _, history = trained
    losses = {name: history[f"{name}_loss"] for name in branches(cell)}
    assert [name for name, loss in losses.items() if not loss[-1] < loss[0]] == []


@pytest.mark.parametrize("cell", CELLS)
def test_a_keras_file_reloads_and_gives_equal_outputs(cell, reloaded_outputs):
    expected, actual = reloaded_outputs
    for name in branches(cell):
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)


@pytest.mark.parametrize("cell", CELLS)
def test_exported_files_reload_and_give_the_outputs_of_the_trained_model(cell, exported_outputs):
    expected, files = exported_outputs
    for actual in files:
        for name in branches(cell):
            np.testing.assert_allclose(actual[name], expected[name], atol=1e-5, err_msg=name)
