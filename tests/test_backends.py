"""Layers on the JAX backend give the outputs and statistics of TensorFlow, and train."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_norm

ROOT = pathlib.Path(__file__).parents[1]
KINDS = ("LayerNormLSTM", "BatchNormGRU", "LayerNormSimpleRNN")

PROGRAM = """
import sys
import jax, numpy as np, keras
import keras_norm
assert keras.backend.backend() == "jax"
arrays = dict(np.load(sys.argv[1]))
x, mask = arrays["x"], arrays["mask"]
layers = []
for kind in {kinds}:
    options = {{"max_timesteps": 5}} if kind.startswith("Batch") else {{}}
    for name in ("kernel_initializer", "recurrent_initializer"):
        options[name] = "zeros"  # JAX compiles every eager operation: random values take longer
    layer = getattr(keras_norm, kind)(4, return_sequences=True, **options)
    layer.build(x.shape)
    layer.set_weights([arrays[f"{{kind}}/{{i}}"] for i in range(len(layer.weights))])
    inference = jax.jit(lambda x, mask: layer(x, mask=mask, training=False))(x, mask)
    np.testing.assert_allclose(inference, arrays[f"{{kind}}/inference"], rtol=0, atol=1e-5)
    layers.append(layer)
# A single model with all layers is compiled once.
model = keras.Sequential([keras.layers.Masking(), *layers, keras.layers.Dense(2)])
model.compile("sgd", "mse")
history = model.fit(x, np.ones((*x.shape[:2], 2)), epochs=3, verbose=0).history["loss"]
assert history[-1] < history[0], history
"""


RECALIBRATE = """
import sys
import numpy as np, keras
import keras_norm
assert keras.backend.backend() == "jax"
folder = sys.argv[1]
data = dict(np.load(f"{folder}/data.npz"))
model = keras.saving.load_model(f"{folder}/model.keras")
assert keras_norm.recalibrate(model, data) == 2
expected = dict(np.load(f"{folder}/expected.npz"))
for i, weight in enumerate(model.weights):
    value = expected[f"arr_{i}"]
    np.testing.assert_allclose(weight, value, rtol=1e-5, atol=1e-5, err_msg=weight.path)

# In keras.layers.RNN with unroll=False, JAX loses the assignments of a cell; Keras' fit fails too.
for unroll in (False, True):
    rnn = keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(2, max_timesteps=2), unroll=unroll)
    model = keras.Sequential([keras.Input((2, 3)), rnn])
    try:
        assert keras_norm.recalibrate(model, data["sequences"][:, :2]) == 2
        assert unroll
    except ValueError as error:
        assert not unroll
        assert "Set unroll=True, use a layer such as BatchNormLSTM" in str(error), error
x = data["sequences"][:, :2].astype("float64") @ np.asarray(rnn.cell.kernel, "float64")
np.testing.assert_allclose(rnn.cell.kernel_norm.moving_mean, x.mean(axis=0), rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(rnn.cell.kernel_norm.moving_variance, x.var(axis=0), rtol=1e-4)
"""


def run_on_jax(program: str, argument: pathlib.Path) -> None:
    """Run a program with an argument on the JAX backend."""
    pytest.importorskip("jax", reason="the second backend of this test is JAX")
    done = subprocess.run(
        [sys.executable, "-c", program, str(argument)],
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_recalibrate_gives_equal_statistics_on_jax_and_tensorflow(tmp_path: pathlib.Path) -> None:
    """The model has batch norms of Keras and of keras_norm, masks, dropout and a dict of inputs."""
    sequences = keras.Input((None, 3), name="sequences")
    features = keras.Input((4,), name="features")
    x = keras.layers.Masking()(sequences)
    x = keras_norm.TimestepBatchNormalization(max_timesteps=5)(x)
    x = keras_norm.BatchNormLSTM(3, max_timesteps=5, dropout=0.5)(keras.layers.Dropout(0.5)(x))
    y = keras_norm.BatchNormalization(renorm=True)(keras.layers.BatchNormalization()(features))
    outputs = keras.layers.BatchNormalization()(keras.layers.Concatenate()([x, y]))
    model = keras.Model({"sequences": sequences, "features": features}, outputs)
    model.save(tmp_path / "model.keras")
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, (64, 1, 1))
    data = {
        "sequences": np.where(np.arange(5)[:, None] < lengths, rng.normal(3.0, 2.0, (64, 5, 3)), 0),
        "features": rng.normal(3.0, 2.0, (64, 4)),
    }
    np.savez(tmp_path / "data.npz", **data)
    assert keras_norm.recalibrate(model, data) == 2
    np.savez(tmp_path / "expected.npz", *model.get_weights())
    run_on_jax(RECALIBRATE, tmp_path)


def test_layers_on_jax_give_the_outputs_of_tensorflow_and_train(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 5, 4)).astype("float32")
    mask = rng.random((6, 5)) < 0.7
    arrays = {"x": x, "mask": mask}
    for kind in KINDS:
        options = {"max_timesteps": 5} if kind.startswith("Batch") else {}
        layer = getattr(keras_norm, kind)(4, return_sequences=True, **options)
        layer(x, mask=mask, training=True)
        weights = layer.get_weights()
        arrays |= {f"{kind}/{i}": w for i, w in enumerate(weights)}
        arrays[f"{kind}/inference"] = np.asarray(layer(x, mask=mask, training=False))
    np.savez(tmp_path / "arrays.npz", **arrays)
    run_on_jax(PROGRAM.format(kinds=KINDS), tmp_path / "arrays.npz")
