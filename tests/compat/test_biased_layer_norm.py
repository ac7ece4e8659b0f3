"""BiasedLayerNormalization adds its bias before the norm."""

import keras
import numpy as np
import pytest

from keras_norm.compat import BiasedLayerNormalization
from tests import oracles
from tests.check_layer import check_layer, layer_gradients

X = np.random.default_rng(0).normal(size=(3, 4, 5))


def test_layer_meets_the_contract_of_check_layer():
    check_layer(
        BiasedLayerNormalization,
        {"axis": [1, 2], "epsilon": 1e-5},
        (4, 3, 5),
        expected_trainable=3,
        expected_non_trainable=0,
    )


def layer_and_weights(axis):
    rng = np.random.default_rng(1)
    layer = BiasedLayerNormalization(axis, epsilon=1e-5, dtype="float64")
    layer.build(X.shape)
    weights = [rng.normal(size=w.shape) for w in layer.weights]
    layer.set_weights(weights)
    return layer, weights


def expected_outputs(x, gamma, beta, bias, axes):
    """Compute the layer with NumPy; `oracles.layer_norm` broadcasts gamma and beta itself."""
    return oracles.layer_norm(x + bias, gamma, beta, axes=axes, epsilon=1e-5)


@pytest.mark.parametrize(("axis", "axes"), [(-1, (-1,)), ([1, 2], (-2, -1))], ids=str)
def test_outputs_equal_the_layer_norm_of_the_sum(axis, axes):
    layer, weights = layer_and_weights(axis)
    np.testing.assert_allclose(layer(X), expected_outputs(X, *weights, axes), rtol=0, atol=1e-12)


def test_gradients_are_exact():
    layer, weights = layer_and_weights(-1)
    factors = np.random.default_rng(2).normal(size=X.shape)
    actual = layer_gradients(layer, X, lambda y: keras.ops.sum(factors * y))
    arguments = [X, *weights]
    for k, gradient in enumerate(actual):

        def loss(value, k=k):
            given = [value if i == k else a for i, a in enumerate(arguments)]
            return (factors * expected_outputs(*given, (-1,))).sum()

        expected = oracles.gradient(loss, arguments[k])
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-10)
