"""The layers are written on keras.ops: another backend computes and trains the same."""

import os
import pathlib
import subprocess
import sys

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
        options[name] = "zeros"  # JAX compiles each operation that is run by itself
    layer = getattr(keras_norm, kind)(4, return_sequences=True, **options)
    layer.build(x.shape)
    layer.set_weights([arrays[f"{{kind}}/{{i}}"] for i in range(len(layer.weights))])
    inference = jax.jit(lambda x, mask: layer(x, mask=mask, training=False))(x, mask)
    np.testing.assert_allclose(inference, arrays[f"{{kind}}/inference"], rtol=0, atol=1e-5)
    layers.append(layer)
# One model of all is compiled once.
model = keras.Sequential([keras.layers.Masking(), *layers, keras.layers.Dense(2)])
model.compile("sgd", "mse")
history = model.fit(x, np.ones((*x.shape[:2], 2)), epochs=3, verbose=0).history["loss"]
assert history[-1] < history[0], history
"""


def test_jax_computes_and_trains_the_same(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("jax", reason="the second backend of this test is JAX")
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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(kinds=KINDS), str(tmp_path / "arrays.npz")],
        env={**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
