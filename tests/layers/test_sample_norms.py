"""LayerNormalization (Ba et al., eq. 3-4), RMSNormalization (Zhang and Sennrich, eq. 4) and
VarianceNormalization (arXiv 2006.12753) against NumPy, and against the layers of Keras.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import LayerNormalization, RMSNormalization, VarianceNormalization
from tests import oracles
from tests.check_layer import layer_gradients

RNG = np.random.default_rng(0)
X = RNG.normal(1.0, 2.0, size=(3, 4, 5))
AXES = [-1, 0, (1, 2), [-1, -2], (0, 2), (0, 1, 2)]
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}


class Norm(NamedTuple):
    """A layer class with its options, and the oracle: a function (x, *weights, axes)."""

    cls: type
    options: dict
    oracle: Callable


NORMS = {
    "rms": Norm(RMSNormalization, {"epsilon": 0.1}, partial(oracles.rms_norm, epsilon=0.1)),
    "variance": Norm(VarianceNormalization, {"center": True, "scale": True}, oracles.variance_norm),
    **{
        f"layer, {placement}, ddof={ddof}": Norm(
            LayerNormalization,
            {"epsilon": 0.5, "epsilon_placement": placement, "ddof": ddof},
            partial(oracles.layer_norm, epsilon=0.5, placement=placement, ddof=ddof),
        )
        for placement in ("inside", "outside")
        for ddof in (0, 1)
    },
}
VARIANCE = (VarianceNormalization, oracles.variance_norm)
CLASSES = [(LayerNormalization, oracles.layer_norm), (RMSNormalization, oracles.rms_norm), VARIANCE]
every_class = pytest.mark.parametrize(("cls", "oracle"), CLASSES)
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def built(norm, axis, dtype="float64"):
    """Build a layer with random weights."""
    layer = norm.cls(axis=axis, dtype=dtype, **norm.options)
    layer.build(X.shape)
    layer.set_weights([RNG.normal(size=weight.shape) for weight in layer.weights])
    return layer


@every_norm
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_outputs_and_gradients_equal_those_of_the_paper(norm, axis):
    for dtype, atol in TOLERANCE.items():
        layer = built(norm, axis, dtype)
        expected = norm.oracle(X, *layer.get_weights(), axes=axis)
        np.testing.assert_allclose(layer(X.astype(dtype)), expected, rtol=0, atol=atol)
    weights, sources = RNG.normal(size=X.shape), [X, *layer.get_weights()]

    def loss(k, source):
        x, *affine = [*sources[:k], source, *sources[k + 1 :]]
        return (weights * norm.oracle(x, *affine, axes=axis)).sum()

    actual = layer_gradients(layer, X, lambda y: keras.ops.sum(weights * y))
    for k, (gradient, source) in enumerate(zip(actual, sources, strict=True)):
        expected = oracles.gradient(partial(loss, k), source)
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("LayerNormalization", {}),
        ("LayerNormalization", {"axis": 1}),
        ("LayerNormalization", {"axis": [1, 2], "epsilon": 0.25, "center": False}),
        ("LayerNormalization", {"rms_scaling": True, "axis": [1, 2]}),
        ("LayerNormalization", {"rms_scaling": True, "center": False, "scale": False}),
        ("RMSNormalization", {"epsilon": 0.25}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`")
def test_a_layer_with_the_configuration_of_the_keras_layer_equals_it(name, options):
    theirs = getattr(keras.layers, name)(**options)
    theirs.build(X.shape)
    ours = getattr(keras_norm, name).from_config(theirs.get_config())
    ours = getattr(keras_norm, name).from_config(ours.get_config())
    ours.build(X.shape)
    assert [weight.name for weight in ours.weights] == [weight.name for weight in theirs.weights]
    theirs.set_weights([RNG.normal(size=weight.shape) for weight in theirs.weights])
    ours.set_weights(theirs.get_weights())
    x = X.astype("float32")
    np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=5e-6)


def test_without_gamma_and_beta_there_are_no_weights():
    options = {"center": False, "scale": False, "dtype": "float64"}
    for cls, oracle in ((LayerNormalization, oracles.layer_norm), VARIANCE):
        layer = cls(**options)
        np.testing.assert_allclose(layer(X), oracle(X), rtol=0, atol=1e-12)
        assert layer.weights == []


@every_class
@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_float16_inputs_near_60000_do_not_overflow(cls, oracle, policy):
    signs = RNG.choice([-1.0, 1.0], size=(4, 64)) if cls is VarianceNormalization else 1.0
    x = np.clip(signs * (60000 + 1500 * RNG.normal(size=(4, 64))), -65500, 65500)
    x = x.astype("float16")
    np.testing.assert_allclose(cls(dtype=policy)(x), oracle(x.astype("float64")), rtol=0, atol=1e-2)


@every_class
@pytest.mark.parametrize("axis", [-1, (1, 2)], ids=str)
def test_a_float32_mean_near_1e7_costs_no_digits(cls, oracle, axis):
    x = (1e7 + 10 * RNG.normal(size=(4, 8, 32))).astype("float32")
    expected = oracle(x.astype("float64"), axes=axis)
    np.testing.assert_allclose(cls(axis=axis)(x), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(("placement", "divisor"), [("inside", np.sqrt(1e-3)), ("outside", 1e-3)])
def test_the_gradient_of_a_constant_row_divides_by_epsilon_or_its_root(placement, divisor, ddof):
    """At a variance of 0, y is (x - mean) / divisor to first order."""
    x, weights = np.full((1, 5), 3.0), RNG.normal(size=(1, 5))
    layer = LayerNormalization(epsilon_placement=placement, ddof=ddof, dtype="float64")
    gradient, *_ = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y))
    np.testing.assert_allclose(gradient, (weights - weights.mean()) / divisor, rtol=1e-12)
    np.testing.assert_array_equal(layer(x), np.zeros((1, 5)))


@pytest.mark.parametrize(("cls", "value"), [(RMSNormalization, 0.0), (VarianceNormalization, 3.0)])
def test_without_centering_the_gradient_of_a_constant_row_is_1_by_sqrt_epsilon(cls, value):
    layer, x = cls(epsilon=0.25, dtype="float64"), np.full((1, 5), value)
    gradient, *_ = layer_gradients(layer, x, keras.ops.sum)
    np.testing.assert_allclose(gradient, np.full((1, 5), 2.0))
    np.testing.assert_allclose(layer(x), 2.0 * x)
