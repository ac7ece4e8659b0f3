"""Recalibration and conversion on JAX and PyTorch.

tests/rnn/core/test_backend_gradients.py trains layers on these backends.
"""

import pathlib

import keras
import numpy as np
import pytest

import keras_norm
from tests.backend_process import run_on_backend

pytestmark = pytest.mark.slow

RECALIBRATE = """
data = dict(np.load(f"{folder}/data.npz"))
model = keras.saving.load_model(f"{folder}/model.keras")
assert keras_norm.recalibrate(model, data) == 2
expected = dict(np.load(f"{folder}/expected.npz"))
for i, weight in enumerate(model.weights):
    value = expected[f"arr_{i}"]
    weight_value = keras.ops.convert_to_numpy(weight)
    np.testing.assert_allclose(weight_value, value, rtol=1e-5, atol=1e-5, err_msg=weight.path)

# In keras.layers.RNN with unroll=False, JAX loses the assignments of a cell; Keras' fit fails too.
for unroll in (False, True):
    rnn = keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(2, max_timesteps=2), unroll=unroll)
    model = keras.Sequential([keras.Input((2, 3)), rnn])
    try:
        assert keras_norm.recalibrate(model, data["sequences"][:, :2]) == 2
        assert unroll or keras.backend.backend() != "jax"
    except ValueError as error:
        assert not unroll and keras.backend.backend() == "jax", error
        assert "Set unroll=True, use a layer such as BatchNormLSTM" in str(error), error
cell = rnn.cell
kernel, mean, variance = map(
    keras.ops.convert_to_numpy,
    (cell.kernel, cell.kernel_norm.moving_mean, cell.kernel_norm.moving_variance),
)
x = data["sequences"][:, :2].astype("float64") @ kernel.astype("float64")
np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(variance, x.var(axis=0), rtol=1e-4)
"""


CONVERT = """
lstm = keras.layers.LSTM(3, kernel_initializer="zeros", recurrent_initializer="zeros")
model = keras.Sequential([keras.Input((4, 2)), lstm, keras.layers.Dense(1)])
x = np.random.default_rng(0).normal(size=(8, 4, 2))
model.compile("sgd", "mse")
before = model.predict(x, verbose=0)
converted = keras_norm.convert(model, None, verbose=False)
np.testing.assert_allclose(converted.predict(x, verbose=0), before, rtol=0, atol=1e-6)
# On JAX `fit` deletes the buffers of the variables. The models must not share buffers.
converted.fit(x, np.ones((8, 1)), verbose=0)
np.testing.assert_array_equal(model.predict(x, verbose=0), before)
"""


# Each program prints its traceback, or an empty line.
RUN = """
import json, sys, traceback
import numpy as np, keras
import keras_norm
errors = []
for program in sys.argv[2:]:
    try:
        exec(program, globals() | {"folder": sys.argv[1]})
        errors.append("")
    except Exception:
        errors.append(traceback.format_exc())
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the folder of the files that the programs read and write."""
    return tmp_path_factory.mktemp("backend")


@pytest.fixture(scope="module", params=["jax", "torch"])
def errors(request: pytest.FixtureRequest, folder: pathlib.Path) -> dict[str, str]:
    """Run all programs in one process on another backend; return their tracebacks."""
    backend = request.param
    recalibrate_on_tensorflow(folder)
    programs = {"recalibrate": RECALIBRATE, "convert": CONVERT}
    found = run_on_backend(backend, "-c", RUN, folder, *programs.values())
    return dict(zip(programs, found, strict=True))


def recalibrate_on_tensorflow(folder: pathlib.Path) -> None:
    """Recalibrate a model, and write the model, the data and the recalibrated weights.

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
    model.save(folder / "model.keras")
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, (64, 1, 1))
    data = {
        "sequences": np.where(np.arange(5)[:, None] < lengths, rng.normal(3.0, 2.0, (64, 5, 3)), 0),
        "features": rng.normal(3.0, 2.0, (64, 4)),
    }
    np.savez(folder / "data.npz", **data)
    assert keras_norm.recalibrate(model, data) == 2
    np.savez(folder / "expected.npz", *model.get_weights())


def test_recalibrate_gives_the_statistics_of_tensorflow(errors: dict[str, str]) -> None:
    assert errors["recalibrate"] == ""


def test_a_converted_model_shares_no_weights_with_the_original(errors: dict[str, str]) -> None:
    assert errors["convert"] == ""
