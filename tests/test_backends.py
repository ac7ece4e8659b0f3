"""Layers, `recalibrate` and `convert` on JAX and PyTorch give the results of TensorFlow.

One process for each backend runs all comparisons of `compare_on_backend`.
"""

import keras
import numpy as np
import pytest

import keras_norm
from tests.backend_process import run_on_backend
from tests.rnn.core.extensions import model_layers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["jax", "torch"])
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def folder(backend, tmp_path_factory):
    return tmp_path_factory.mktemp(backend)


@pytest.fixture(scope="module")
def errors(backend, folder):
    """Run all comparisons; return a dict from comparisons to tracebacks."""
    train_and_save(folder)
    recalibrate_and_save(folder)
    return run_on_backend(backend, "-m", "tests.compare_on_backend", folder)


def train_and_save(folder):
    """Train a model on TensorFlow, and save the model, its inputs and its outputs."""
    model = keras.Sequential([keras.Input((None, 4)), *model_layers()])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).normal(size=(16, 5, 4)).astype("float32")
    model.train_on_batch(x, x[..., :1])
    model.save(folder / "tensorflow.keras")
    np.savez(folder / "tensorflow.npz", inputs=x, outputs=model.predict(x, verbose=0))


def recalibrate_and_save(folder):
    """Recalibrate a model, and save the model, the data and the recalibrated weights.

    The model has batch norms of Keras and of keras_norm, masks, dropout and a dict of inputs.
    """
    sequences = keras.Input((None, 3), name="sequences")
    features = keras.Input((4,), name="features")
    x = keras.layers.Masking()(sequences)
    x = keras_norm.TimestepBatchNormalization(max_timesteps=5)(x)
    x = keras_norm.BatchNormLSTM(3, max_timesteps=5, dropout=0.5)(keras.layers.Dropout(0.5)(x))
    y = keras_norm.BatchNormalization(renorm=True)(keras.layers.BatchNormalization()(features))
    outputs = keras.layers.BatchNormalization()(keras.layers.Concatenate()([x, y]))
    model = keras.Model({"sequences": sequences, "features": features}, outputs)
    model.save(folder / "recalibrated.keras")
    rng = np.random.default_rng(0)
    unmasked = np.arange(5)[:, None] < rng.integers(2, 6, (64, 1, 1))
    data = {
        "sequences": np.where(unmasked, rng.normal(3.0, 2.0, (64, 5, 3)), 0),
        "features": rng.normal(3.0, 2.0, (64, 4)),
    }
    np.savez(folder / "data.npz", **data)
    assert keras_norm.recalibrate(model, data) == 2
    np.savez(folder / "weights.npz", *model.get_weights())


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "SimpleRNN"])
def test_results_statistics_and_gradients_match_the_loop(errors, cell):
    """The comparisons have masks, dropout, initial states, all norms, training and inference."""
    names = [name for name in errors if name.startswith(f"{cell}, ")]
    assert len(names) >= 2
    assert [errors[name] for name in names if errors[name]] == []


@pytest.mark.parametrize(
    "name",
    [
        "cell and norm of a user",
        "second derivatives",
        "padding",
        "auto",
        "load_and_predict",
        "recalibrate",
        "recalibrate_cell",
        "convert",
    ],
)
def test_a_comparison_passes(errors, name):
    """Layers with compiled=False, another activation or unroll=True run the loop."""
    assert errors[name] == ""


def test_a_model_trained_on_the_backend_has_equal_outputs_on_tensorflow(errors, folder):
    assert errors["train_and_save"] == ""
    model = keras.saving.load_model(folder / "model.keras")
    arrays = np.load(folder / "arrays.npz")
    outputs = model.predict(arrays["inputs"], verbose=0)
    np.testing.assert_allclose(outputs, arrays["outputs"], rtol=0, atol=1e-5)
