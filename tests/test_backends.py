"""Layers on JAX and PyTorch give the outputs and statistics of TensorFlow, and train."""

import pathlib

import keras
import numpy as np
import pytest

import keras_norm
from tests.backend_process import run_on_backend

pytestmark = pytest.mark.slow

KINDS = ("LayerNormLSTM", "BatchNormGRU", "LayerNormSimpleRNN")

LAYERS = """
arrays = dict(np.load(f"{folder}/arrays.npz"))
x, mask = arrays["x"], arrays["mask"]
layers = {}
for kind in map(str, arrays["kinds"]):
    options = {"max_timesteps": 5} if kind.startswith("Batch") else {}
    for name in ("kernel_initializer", "recurrent_initializer"):
        options[name] = "zeros"  # JAX compiles every eager operation: random values take longer
    layer = getattr(keras_norm, kind)(4, return_sequences=True, **options)
    layer.build(x.shape)
    layer.set_weights([arrays[f"{kind}/{i}"] for i in range(len(layer.weights))])
    layers[kind] = layer
run = lambda x, mask: {k: layer(x, mask=mask, training=False) for k, layer in layers.items()}
if keras.backend.backend() == "jax":
    import jax
    run = jax.jit(run)
for kind, inference in run(x, mask).items():
    inference = keras.ops.convert_to_numpy(inference)
    np.testing.assert_allclose(inference, arrays[f"{kind}/inference"], rtol=0, atol=1e-5)
# A file of a model that was compiled on JAX has jit_compile=True, which takes minutes on PyTorch.
on_torch = keras.backend.backend() == "torch"
assert all(layer.supports_jit != on_torch for layer in layers.values())
# A single model with all layers is compiled once.
model = keras.Sequential([keras.layers.Masking(), *layers.values(), keras.layers.Dense(2)])
model.compile("sgd", "mse")
history = model.fit(x, np.ones((*x.shape[:2], 2)), epochs=3, verbose=0).history["loss"]
assert history[-1] < history[0], history
model.save(f"{folder}/trained.keras")
np.save(f"{folder}/trained.npy", model.predict(x, verbose=0))
"""


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
    run_layers_on_tensorflow(folder)
    recalibrate_on_tensorflow(folder)
    programs = {"layers": LAYERS, "recalibrate": RECALIBRATE, "convert": CONVERT}
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


def run_layers_on_tensorflow(folder: pathlib.Path) -> None:
    """Run recurrent layers, and write their inputs, weights and outputs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 5, 4)).astype("float32")
    mask = rng.random((6, 5)) < 0.7
    arrays = {"x": x, "mask": mask, "kinds": np.array(KINDS)}
    for kind in KINDS:
        options = {"max_timesteps": 5} if kind.startswith("Batch") else {}
        layer = getattr(keras_norm, kind)(4, return_sequences=True, **options)
        layer(x, mask=mask, training=True)
        weights = layer.get_weights()
        arrays |= {f"{kind}/{i}": w for i, w in enumerate(weights)}
        arrays[f"{kind}/inference"] = np.asarray(layer(x, mask=mask, training=False))
    np.savez(folder / "arrays.npz", **arrays)


def test_recalibrate_gives_the_statistics_of_tensorflow(errors: dict[str, str]) -> None:
    assert errors["recalibrate"] == ""


def test_layers_give_the_outputs_of_tensorflow_and_train(errors: dict[str, str]) -> None:
    assert errors["layers"] == ""


def test_a_file_of_the_trained_model_has_equal_outputs_on_tensorflow(
    errors: dict[str, str], folder: pathlib.Path
) -> None:
    assert errors["layers"] == ""
    model = keras.saving.load_model(folder / "trained.keras")
    outputs = model.predict(np.load(folder / "arrays.npz")["x"], verbose=0)
    np.testing.assert_allclose(outputs, np.load(folder / "trained.npy"), rtol=0, atol=1e-5)


def test_a_converted_model_shares_no_weights_with_the_original(errors: dict[str, str]) -> None:
    assert errors["convert"] == ""
