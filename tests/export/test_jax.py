"""Models that JAX trained are exported and checked; one process runs `export_on_jax`."""

import keras
import numpy as np
import pytest

from keras_norm.export import export_saved_model, open_runner
from tests.backend_process import run_on_backend
from tests.export.own_layers import DoubledOnTensorFlow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Export a model on TensorFlow that computes other outputs on JAX."""
    folder = tmp_path_factory.mktemp("jax")
    inputs = keras.Input((None, 3), name="x")
    x = DoubledOnTensorFlow(name="own")(keras.layers.Dense(4)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2, name="y")(x))
    model.save(folder / "other.keras")
    export_saved_model(model, folder / "other")
    return folder


@pytest.fixture(scope="module")
def errors(folder):
    """Run all programs; return a dict from their names to tracebacks."""
    return run_on_backend("jax", "-m", "tests.export.export_on_jax", folder)


@pytest.mark.parametrize("name", ["served", "model.tflite"])
def test_the_files_give_the_outputs_of_predict_on_jax(errors, folder, name):
    assert errors["round_trip"] == ""
    arrays = np.load(folder / "arrays.npz")
    with open_runner(folder / name) as run:
        np.testing.assert_allclose(run({"x": arrays["x"]})["y"], arrays["y"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["round_trip", "other_outputs_on_tensorflow", "single_step"])
def test_every_program_passes_on_jax(errors, name):
    assert errors[name] == ""
