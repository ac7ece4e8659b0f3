"""Every cell with every kind of norm trains, predicts, exports and reloads as users run it.

The fixtures of `conftest.py` replace nothing here: training is compiled by XLA, TensorFlow
optimizes its graphs, and the exporters start their own processes. One model has a branch for each
pair of a cell and a norm, so that it is converted once, and each process starts once for all
branches. Each branch is a column of the model's output, because a loss for each branch takes longer
to trace. A fast test runs every cell, every norm and options of recurrences. A slow test runs
each cell with the other kinds of norm (per sample, per batch, per timestep) and an LSTM without a
norm, and exports the signature `step` of a TFLite file too.
"""

import functools

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


OPTIONS = {
    "LSTM, joint": functools.partial(
        keras_norm.NormLSTM, norm_form="joint", zoneout=0.1, cell_zoneout=0.2, peepholes=True
    ),
    "GRU, joint_all": functools.partial(
        keras_norm.NormGRU, norm_form="joint_all", candidate_dropout=0.1
    ),
    "LSTM, projection": functools.partial(
        keras_norm.NormLSTM, projection_units=3, cell_clip=5.0, peepholes=True
    ),
}
FAST = [
    ("LSTM, joint", "variance"),
    ("GRU, joint_all", "layer"),
    ("GRU", "batch"),
    ("SimpleRNN", "rms"),
    ("SimpleRNN", "timestep"),
]
OTHERS = [
    ("LSTM", "none"),
    ("LSTM", "layer"),
    ("LSTM", "batch"),
    ("LSTM", "timestep"),
    ("LSTM, projection", "layer"),
    ("GRU", "rms"),
    ("GRU", "timestep"),
    ("SimpleRNN", "batch"),
]


def build_model(pairs):
    inputs = keras.Input((None, FEATURES), name="x")
    masked = keras.layers.Masking()(inputs)
    branches = []
    for cell, norm in pairs:
        recurrent = {**CELLS, **OPTIONS}[cell](UNITS, norm=NORMS[norm], dropout=0.1)
        branches.append(keras.layers.Dense(1)(recurrent(masked)))
    return keras.Model(inputs, keras.layers.Concatenate(name="y")(branches))


SLOW = pytest.param(OTHERS, id="others", marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[pytest.param(FAST, id="fast"), SLOW])
def pairs(request):
    """Return the pairs of a cell and a norm that are the branches of the model."""
    return request.param


@pytest.fixture(scope="module")
def trained(pairs):
    """Train a model; return it, its data, and the squared errors before and after the training."""
    model = build_model(pairs)
    # SGD has no variables to create, so TensorFlow traces the training step once.
    model.compile(keras.optimizers.SGD(0.05 * len(pairs)), "mse")
    x, y = sequences(64)
    before = np.square(model(x) - y)
    model.fit(x, np.tile(y, len(pairs)), batch_size=16, epochs=8, verbose=0)
    return model, x, (before, np.square(model(x) - y))


def test_training_reduces_the_loss_of_every_branch(pairs, trained):
    before, after = (errors.mean(axis=0) for errors in trained[2])
    assert [pair for pair, a, b in zip(pairs, before, after, strict=True) if not b < a] == []


def test_a_keras_file_reloads_and_gives_equal_outputs(trained, tmp_path):
    model, x, _ = trained
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(x), model(x))


def test_exported_files_reload_and_give_the_outputs_of_the_trained_model(pairs, trained, tmp_path):
    (model, x, _), step = trained, pairs is not FAST
    served = tf.saved_model.load(str(export_saved_model(model, tmp_path / "served", step=False)))
    tflite = Interpreter(str(export_tflite(model, tmp_path / "model.tflite", step=step)))
    expected, name = model.predict(x, verbose=0), "serving_default"
    for run in (served.signatures[name], tflite.get_signature_runner(name)):
        np.testing.assert_allclose(run(x=x)["y"], expected, atol=1e-5)
