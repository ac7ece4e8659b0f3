"""LayerNormalization against Ba et al. eq. 3-4, and against Keras' layer."""

import keras
import numpy as np
import pytest

from keras_norm import LayerNormalization
from tests import oracles
from tests.check_layer import assert_refused, check_layer, layer_gradients

RNG = np.random.default_rng(0)
X = RNG.normal(1.0, 2.0, size=(3, 4, 5))
AXES = [-1, 0, 1, -2, (1, 2), (2, 1), [-2, -1], (0, 2), (0, 1, 2)]
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}


def layer_and_weights(x, dtype="float64", **kwargs):
    """Build a layer with random gamma and beta; return the layer, gamma and beta."""
    layer = LayerNormalization(dtype=dtype, **kwargs)
    layer.build(x.shape)
    layer.gamma.assign(RNG.normal(size=layer.gamma.shape))
    layer.beta.assign(RNG.normal(size=layer.beta.shape))
    return layer, layer.gamma.numpy(), layer.beta.numpy()


def test_layer_meets_the_contract_of_check_layer():
    check_layer(
        LayerNormalization,
        {"axis": [2, 1], "epsilon": 1e-5, "epsilon_placement": "outside", "ddof": 1},
        (4, 3, 5),
        expected_trainable=2,
        expected_non_trainable=0,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_output_equals_that_of_the_paper(axis, dtype):
    layer, gamma, beta = layer_and_weights(X, dtype, axis=axis)
    expected = oracles.layer_norm(X, gamma, beta, axis, 1e-3)
    np.testing.assert_allclose(layer(X.astype(dtype)), expected, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("placement", ["inside", "outside"])
@pytest.mark.parametrize("ddof", [0, 1])
def test_output_is_right_for_each_placement_of_epsilon_and_each_ddof(placement, ddof):
    layer, gamma, beta = layer_and_weights(X, epsilon=0.5, epsilon_placement=placement, ddof=ddof)
    expected = oracles.layer_norm(X, gamma, beta, -1, 0.5, placement, ddof)
    np.testing.assert_allclose(layer(X), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("axis", "placement", "ddof"),
    [(-1, "inside", 0), (-1, "outside", 1), ((1, 2), "inside", 1), (1, "outside", 0)],
)
def test_gradients_are_exact(axis, placement, ddof):
    x = X[:2]
    layer, gamma, beta = layer_and_weights(x, axis=axis, epsilon_placement=placement, ddof=ddof)
    weights = RNG.normal(size=x.shape)

    def loss(x, gamma, beta):
        return (weights * oracles.layer_norm(x, gamma, beta, axis, 1e-3, placement, ddof)).sum()

    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y))
    expected = [
        oracles.gradient(lambda v: loss(v, gamma, beta), x),
        oracles.gradient(lambda v: loss(x, v, beta), gamma),
        oracles.gradient(lambda v: loss(x, gamma, v), beta),
    ]
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-12)


@pytest.mark.parametrize("axis", [-1, 1, [1, 2]], ids=str)
def test_equals_the_keras_layer_with_equal_weights(axis):
    x = X.astype("float32")
    theirs = keras.layers.LayerNormalization(
        axis=axis, beta_initializer="random_normal", gamma_initializer="random_normal"
    )
    expected = theirs(x)
    ours = LayerNormalization(axis=axis)
    ours.build(x.shape)
    ours.set_weights(theirs.get_weights())
    np.testing.assert_allclose(ours(x), expected, rtol=0, atol=5e-6)


def test_loads_the_configuration_of_the_keras_layer():
    theirs = keras.layers.LayerNormalization(axis=[1, 2], epsilon=0.25, center=False)
    ours = LayerNormalization.from_config(theirs.get_config())
    x = X.astype("float32")
    np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=5e-6)
    assert [weight.name for weight in ours.weights] == ["gamma"]


@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_float16_inputs_near_60000_do_not_overflow(policy):
    x = np.clip(60000 + 1500 * RNG.normal(size=(4, 64)), 0, 65500).astype("float16")
    y = LayerNormalization(dtype=policy)(x)
    np.testing.assert_allclose(y, oracles.layer_norm(x.astype("float64")), rtol=0, atol=1e-2)


@pytest.mark.parametrize("axis", [-1, (1, 2)], ids=str)
def test_a_float32_mean_near_1e7_costs_no_digits(axis):
    x = (1e7 + 10 * RNG.normal(size=(4, 8, 32))).astype("float32")
    expected = oracles.layer_norm(x.astype("float64"), axes=axis)
    np.testing.assert_allclose(LayerNormalization(axis=axis)(x), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("placement", "divisor"), [("inside", np.sqrt(1e-3)), ("outside", 1e-3)])
@pytest.mark.parametrize("ddof", [0, 1])
def test_gradient_of_a_constant_row_divides_by_epsilon_or_its_root(placement, divisor, ddof):
    # At a variance of 0, y is (x - mean) / divisor to first order.
    weights = RNG.normal(size=(1, 5))
    layer = LayerNormalization(epsilon_placement=placement, ddof=ddof, dtype="float64")
    gradient, *_ = layer_gradients(
        layer, np.full((1, 5), 3.0), lambda y: keras.ops.sum(weights * y)
    )
    np.testing.assert_allclose(gradient, (weights - weights.mean()) / divisor, rtol=1e-12)


def test_constant_row_gives_beta():
    layer, _, beta = layer_and_weights(X)
    np.testing.assert_allclose(layer(np.full((1, 4, 5), 0.1)), np.tile(beta, (1, 4, 1)), atol=1e-12)


def test_without_gamma_and_beta_there_are_no_weights():
    layer = LayerNormalization(center=False, scale=False, dtype="float64")
    np.testing.assert_allclose(layer(X), oracles.layer_norm(X), rtol=0, atol=1e-12)
    assert layer.weights == []


def test_weights_are_float32_under_mixed_precision():
    layer = LayerNormalization(dtype="mixed_float16")
    layer.build((None, 5))
    assert {weight.dtype for weight in layer.weights} == {"float32"}


def test_initializers_regularizers_and_constraints_reach_the_weights():
    layer = LayerNormalization(
        beta_initializer=keras.initializers.Constant(2),
        gamma_initializer=keras.initializers.Constant(3),
        beta_regularizer=keras.regularizers.L1(0.5),
        gamma_regularizer=keras.regularizers.L2(0.1),
        beta_constraint=keras.constraints.NonNeg(),
        gamma_constraint=keras.constraints.UnitNorm(),
    )
    layer.build((None, 5))
    np.testing.assert_allclose(sum(layer.losses), 0.5 * 5 * 2 + 0.1 * 5 * 9, rtol=1e-6)
    assert isinstance(layer.beta.constraint, keras.constraints.NonNeg)
    assert isinstance(layer.gamma.constraint, keras.constraints.UnitNorm)


def test_time_may_be_dynamic():
    inputs = keras.Input((None, 5))
    model = keras.Model(inputs, LayerNormalization()(inputs))
    for time in (2, 7):
        x = RNG.normal(size=(3, time, 5))
        np.testing.assert_allclose(model(x), oracles.layer_norm(x), rtol=0, atol=5e-6)


@pytest.mark.parametrize("axis", [3, -4, [1, 3]], ids=str)
def test_axis_out_of_range_is_refused(axis):
    assert_refused(lambda: LayerNormalization(axis=axis)(X), "axis", str(axis))


@pytest.mark.parametrize("axis", [(1, 1), (2, -1)], ids=str)
def test_duplicate_axis_is_refused(axis):
    assert_refused(lambda: LayerNormalization(axis=axis)(X), "axis", str(list(axis))[1:-1])


@pytest.mark.parametrize("axis", ["last", 1.5, None], ids=str)
def test_axis_of_another_type_is_refused(axis):
    assert_refused(lambda: LayerNormalization(axis=axis)(X), "axis", str(axis))


def test_normalized_axis_of_dynamic_size_is_refused():
    assert_refused(lambda: LayerNormalization(axis=1)(keras.Input((None, 3))), "axis 1", "None")


def test_integer_input_is_refused():
    assert_refused(lambda: LayerNormalization()(np.ones((2, 3), "int32")), "int32")


def test_unknown_placement_of_epsilon_is_refused():
    assert_refused(
        lambda: LayerNormalization(epsilon_placement="under"),
        "epsilon_placement",
        "under",
        "inside",
    )


def test_ddof_other_than_0_or_1_is_refused():
    assert_refused(lambda: LayerNormalization(ddof=2), "ddof", "2")


def test_ddof_of_1_is_refused_for_one_feature():
    assert_refused(lambda: LayerNormalization(ddof=1)(X[..., :1]), "ddof=1", "(3, 4, 1)")


def test_negative_epsilon_is_refused():
    assert_refused(lambda: LayerNormalization(epsilon=-0.5), "epsilon", "-0.5")


@pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`")
@pytest.mark.parametrize("axis", [-1, [1, 2]], ids=str)
@pytest.mark.parametrize("switches", [{}, {"center": False, "scale": False}], ids=str)
def test_rms_scaling_equals_the_keras_layer(axis, switches):
    theirs = keras.layers.LayerNormalization(axis, rms_scaling=True, **switches)
    theirs.build(X.shape)
    ours = LayerNormalization.from_config(theirs.get_config())
    ours = LayerNormalization.from_config(ours.get_config())
    ours.build(X.shape)
    ours.set_weights([RNG.normal(size=w.shape) for w in theirs.get_weights()])
    theirs.set_weights(ours.get_weights())
    y = ours(X.astype("float32"))
    np.testing.assert_allclose(y, theirs(X.astype("float32")), rtol=0, atol=5e-6)
    oracle = oracles.variance_norm(X, ours.gamma.numpy(), axes=axis)
    np.testing.assert_allclose(y, oracle, rtol=0, atol=5e-6)


def test_a_layer_built_for_sequences_normalizes_vectors_too():
    layer = LayerNormalization()
    layer.build((None, 5, 4))
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    np.testing.assert_allclose(layer(x), LayerNormalization()(x), rtol=0, atol=1e-6)


def test_inputs_of_another_size_are_refused():
    layer = LayerNormalization()
    layer.build((None, 1))
    with pytest.raises(ValueError, match=r"built for inputs of size \(1,\)"):
        layer(np.zeros((2, 3), "float32"))
