"""VarianceNormalization against the variance-only norm of arXiv 2006.12753."""

import keras
import numpy as np
import pytest

from keras_norm import VarianceNormalization
from tests import oracles
from tests.check_layer import assert_refused, check_layer, layer_gradients

RNG = np.random.default_rng(0)
X = RNG.normal(1.0, 2.0, size=(3, 4, 5))
AXES = [-1, 0, 1, -2, (1, 2), (2, 1), [-2, -1], (0, 2), (0, 1, 2)]
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}


def layer_and_weights(x, dtype="float64", **kwargs):
    layer = VarianceNormalization(center=True, scale=True, dtype=dtype, **kwargs)
    layer.build(x.shape)
    layer.gamma.assign(RNG.normal(size=layer.gamma.shape))
    layer.beta.assign(RNG.normal(size=layer.beta.shape))
    return layer, layer.gamma.numpy(), layer.beta.numpy()


def test_layer_meets_the_contract_of_check_layer():
    check_layer(
        VarianceNormalization,
        {},
        (4, 3, 5),
        expected_trainable=0,
        expected_non_trainable=0,
        train=False,
    )


def test_layer_with_gamma_and_beta_meets_the_contract_of_check_layer():
    check_layer(
        VarianceNormalization,
        {"axis": [2, 1], "center": True, "scale": True},
        (4, 3, 5),
        expected_trainable=2,
        expected_non_trainable=0,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_output_equals_that_of_the_paper(axis, dtype):
    layer, gamma, beta = layer_and_weights(X, dtype, axis=axis)
    expected = oracles.variance_norm(X, gamma, beta, axis)
    np.testing.assert_allclose(layer(X.astype(dtype)), expected, rtol=0, atol=TOLERANCE[dtype])


def test_the_layer_has_no_weights_by_default():
    layer = VarianceNormalization(dtype="float64")
    np.testing.assert_allclose(layer(X), oracles.variance_norm(X), rtol=0, atol=1e-12)
    assert layer.weights == []


@pytest.mark.parametrize("axis", [-1, 1, (1, 2)], ids=str)
def test_gradients_are_exact(axis):
    x = X[:2]
    layer, gamma, beta = layer_and_weights(x, axis=axis)
    weights = RNG.normal(size=x.shape)

    def loss(x, gamma, beta):
        return (weights * oracles.variance_norm(x, gamma, beta, axis)).sum()

    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y))
    expected = [
        oracles.gradient(lambda v: loss(v, gamma, beta), x),
        oracles.gradient(lambda v: loss(x, v, beta), gamma),
        oracles.gradient(lambda v: loss(x, gamma, v), beta),
    ]
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_float16_inputs_near_60000_do_not_overflow(policy):
    signs = RNG.choice([-1.0, 1.0], size=(4, 64))
    x = np.clip(signs * (60000 + 1500 * RNG.normal(size=(4, 64))), -65500, 65500).astype("float16")
    y = VarianceNormalization(dtype=policy)(x)
    np.testing.assert_allclose(y, oracles.variance_norm(x.astype("float64")), rtol=0, atol=1e-2)


def test_a_float32_mean_near_1e7_costs_no_digits():
    x = (1e7 + 10 * RNG.normal(size=(4, 256))).astype("float32")
    expected = oracles.variance_norm(x.astype("float64"))
    np.testing.assert_allclose(VarianceNormalization()(x), expected, rtol=1e-5)


def test_gradient_of_a_constant_row_is_1_by_sqrt_epsilon():
    layer = VarianceNormalization(epsilon=0.25, dtype="float64")
    gradient, *_ = layer_gradients(layer, np.full((1, 5), 3.0), keras.ops.sum)
    np.testing.assert_allclose(gradient, np.full((1, 5), 2.0))


@pytest.mark.parametrize("axis", [3, -4, [1, 3]], ids=str)
def test_axis_out_of_range_is_refused(axis):
    assert_refused(lambda: VarianceNormalization(axis=axis)(X), "axis", str(axis))


@pytest.mark.parametrize("axis", [(1, 1), (2, -1)], ids=str)
def test_duplicate_axis_is_refused(axis):
    assert_refused(lambda: VarianceNormalization(axis=axis)(X), "axis", str(list(axis))[1:-1])


def test_integer_input_is_refused():
    assert_refused(lambda: VarianceNormalization()(np.ones((2, 3), "int32")), "int32")


def test_normalized_axis_of_dynamic_size_is_refused():
    assert_refused(lambda: VarianceNormalization(axis=1)(keras.Input((None, 3))), "axis 1", "None")


@pytest.mark.parametrize("axis", ["last", 1.5, None], ids=str)
def test_axis_of_another_type_is_refused(axis):
    assert_refused(lambda: VarianceNormalization(axis=axis)(X), "axis", str(axis))


def test_negative_epsilon_is_refused():
    assert_refused(lambda: VarianceNormalization(epsilon=-0.5), "epsilon", "-0.5")
