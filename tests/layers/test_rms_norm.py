"""RMSNormalization against Zhang and Sennrich eq. 4, and against Keras' layer."""

import keras
import numpy as np
import pytest

from keras_norm import RMSNormalization
from tests import oracles
from tests.check_layer import assert_refused, check_layer, layer_gradients

RNG = np.random.default_rng(0)
X = RNG.normal(1.0, 2.0, size=(3, 4, 5))
AXES = [-1, 0, 1, -2, (1, 2), (2, 1), [-2, -1], (0, 2), (0, 1, 2)]
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}


def layer_and_scale(x, dtype="float64", **kwargs):
    layer = RMSNormalization(dtype=dtype, **kwargs)
    layer.build(x.shape)
    layer.scale.assign(RNG.normal(size=layer.scale.shape))
    return layer, layer.scale.numpy()


def test_layer_meets_the_contract_of_check_layer():
    check_layer(
        RMSNormalization,
        {"axis": [2, 1]},
        (4, 3, 5),
        expected_trainable=1,
        expected_non_trainable=0,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_output_equals_that_of_the_paper(axis, dtype):
    layer, scale = layer_and_scale(X, dtype, axis=axis, epsilon=0.1)
    expected = oracles.rms_norm(X, scale, axis, 0.1)
    np.testing.assert_allclose(layer(X.astype(dtype)), expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("axis", [-1, 1, (1, 2)], ids=str)
def test_gradients_are_exact(axis):
    x = X[:2]
    layer, scale = layer_and_scale(x, axis=axis)
    weights = RNG.normal(size=x.shape)
    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y))
    expected = [
        oracles.gradient(lambda v: (weights * oracles.rms_norm(v, scale, axis)).sum(), x),
        oracles.gradient(lambda v: (weights * oracles.rms_norm(x, v, axis)).sum(), scale),
    ]
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


def test_equals_the_keras_layer_with_equal_weights():
    x = X.astype("float32")
    theirs, ours = keras.layers.RMSNormalization(), RMSNormalization()
    theirs.build(x.shape)
    ours.build(x.shape)
    theirs.set_weights([RNG.normal(size=5)])
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=5e-6)


def test_loads_the_configuration_of_the_keras_layer():
    theirs = keras.layers.RMSNormalization(epsilon=0.25)
    ours = RMSNormalization.from_config(theirs.get_config())
    x = X.astype("float32")
    np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=5e-6)
    assert [weight.name for weight in ours.weights] == ["scale"]


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_float16_inputs_near_60000_do_not_overflow(policy):
    x = np.clip(60000 + 1500 * RNG.normal(size=(4, 64)), 0, 65500).astype("float16")
    y = RMSNormalization(dtype=policy)(x)
    np.testing.assert_allclose(y, oracles.rms_norm(x.astype("float64")), rtol=0, atol=1e-2)


def test_a_float32_mean_near_1e7_costs_no_digits():
    x = (1e7 + 10 * RNG.normal(size=(4, 256))).astype("float32")
    expected = oracles.rms_norm(x.astype("float64"))
    np.testing.assert_allclose(RMSNormalization()(x), expected, rtol=0, atol=2e-6)


def test_zero_row_gives_zeros_and_a_gradient_of_1_by_sqrt_epsilon():
    layer = RMSNormalization(epsilon=0.25, dtype="float64")
    x = np.zeros((1, 5))
    gradient, _ = layer_gradients(layer, x, keras.ops.sum)
    np.testing.assert_array_equal(layer(x), x)
    np.testing.assert_allclose(gradient, np.full((1, 5), 2.0))


def test_weights_are_float32_under_mixed_precision():
    layer = RMSNormalization(dtype="mixed_float16")
    layer.build((None, 5))
    assert layer.scale.dtype == "float32"


@pytest.mark.parametrize("axis", [3, -4, [1, 3]], ids=str)
def test_axis_out_of_range_is_refused(axis):
    assert_refused(lambda: RMSNormalization(axis=axis)(X), "axis", str(axis))


@pytest.mark.parametrize("axis", [(1, 1), (2, -1)], ids=str)
def test_duplicate_axis_is_refused(axis):
    assert_refused(lambda: RMSNormalization(axis=axis)(X), "axis", str(list(axis))[1:-1])


def test_integer_input_is_refused():
    assert_refused(lambda: RMSNormalization()(np.ones((2, 3), "int32")), "int32")


def test_normalized_axis_of_dynamic_size_is_refused():
    assert_refused(lambda: RMSNormalization(axis=1)(keras.Input((None, 3))), "axis 1", "None")


@pytest.mark.parametrize("axis", ["last", 1.5, None], ids=str)
def test_axis_of_another_type_is_refused(axis):
    assert_refused(lambda: RMSNormalization(axis=axis)(X), "axis", str(axis))


def test_negative_epsilon_is_refused():
    assert_refused(lambda: RMSNormalization(epsilon=-0.5), "epsilon", "-0.5")
