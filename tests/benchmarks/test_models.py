"""The measured layers, their steps, and the bare matrix products."""

import keras
import numpy as np
import tensorflow as tf

from benchmarks import matrix_products, models, recurrent_layers
from benchmarks.settings import Shape
from tests import oracles

SHAPE = Shape(4, 5, 3, 6)


def test_the_reference_cell_matches_the_equations():
    cell = recurrent_layers.LayerNormCell(SHAPE.units)
    layer = keras.layers.RNN(cell, return_sequences=True)
    x = models.normal(4, 5, 3)
    layer.build(x.shape)
    rng = np.random.default_rng(1)
    for weight in layer.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    W, U, b = (w.numpy().astype("float64") for w in (cell.W, cell.U, cell.b))

    def norm(layer):
        gamma, beta = layer.gamma.numpy(), layer.beta.numpy()
        return lambda z: oracles.layer_norm(z, gamma, beta, epsilon=1e-5)

    norms = {n: norm(getattr(cell, n)) for n in ("kernel_norm", "recurrent_norm", "state_norm")}
    expected, _ = oracles.run_sequence(
        lambda x, states, t, unmasked: oracles.lstm_step(x, states, W, U, b, **norms),
        x.numpy().astype("float64"),
        [np.zeros((4, 6)), np.zeros((4, 6))],
    )
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_xla_computes_whole_products():
    """XLA must not skip entries of a product that are unused."""
    chain = matrix_products.product_chain(
        lambda z: tf.add_n(tf.split(z, 4, axis=1)), "rows", SHAPE.time
    )
    h, U = models.normal(4, 6), models.normal(6, 24)
    program = chain.experimental_get_compiler_ir(h, U)(stage="hlo")
    (product,) = [line for line in program.splitlines() if " dot(" in line]
    assert "f32[4,24]" in product
    z, expected = None, h.numpy()
    for _ in range(SHAPE.time):
        z = expected @ U.numpy()
        expected = matrix_products.SHRINK * sum(np.split(z, 4, axis=1))
    np.testing.assert_allclose(chain(h, U), expected, rtol=1e-4)
