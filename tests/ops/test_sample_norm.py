"""LayerNorm and RMSNorm of a step, against the NumPy oracle and its complex-step gradient."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.sample_norm import SampleNorm
from tests import oracles

ROWS, FEATURES = 3, 5
# tests/rnn/core/test_product.py tests these norms too.
NORMS = {
    "layer": SampleNorm(True, 1e-3),
    "rms": SampleNorm(False, 1e-3),
    "ddof": SampleNorm(True, 1e-3, ddof=1),
    "outside": SampleNorm(True, 0.1, outside=True),
    "ddof, outside": SampleNorm(True, 0.1, ddof=1, outside=True),
}
CENTERED = {name: norm for name, norm in NORMS.items() if norm.center}
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
every_layer_norm = pytest.mark.parametrize("norm", CENTERED.values(), ids=CENTERED)


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def oracle(norm, a, gamma=None):
    """Normalize with NumPy; `a` may be complex."""
    if not norm.center:
        return oracles.rms_norm(a, gamma, epsilon=norm.epsilon)
    placement = "outside" if norm.outside else "inside"
    return oracles.layer_norm(a, gamma, epsilon=norm.epsilon, placement=placement, ddof=norm.ddof)


def normalize(norm, a, gamma=None):
    a = tf.constant(a)
    return norm.apply(a, norm.statistics(a), gamma)


def backward(norm, a, dy, gamma=None):
    """Return the gradients of `a`, and of gamma and beta for each row."""
    a = tf.constant(a)
    return norm.backward(a, tf.constant(dy), norm.statistics(a), gamma)


def assert_equal(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@every_norm
@pytest.mark.parametrize("gamma", [None, draw(FEATURES)], ids=["no gamma", "gamma"])
@pytest.mark.parametrize("shape", [(ROWS, FEATURES), (2, ROWS, FEATURES)], ids=str)
def test_statistics_outputs_and_gradients_equal_the_oracle(norm, gamma, shape):
    """The statistics are r = 1 / deviation and, with centering, the mean.

    The gradients of gamma and beta are those of each row.
    """
    a, dy = draw(*shape), draw(*shape, seed=1)
    r, *mean = norm.statistics(tf.constant(a))
    for found in mean:
        assert_equal(found, a.mean(axis=-1, keepdims=True))
    assert_equal((a - sum(mean)) * r, oracle(norm, a))
    assert_equal(normalize(norm, a, gamma), oracle(norm, a, gamma))
    da, d_gamma, d_beta = backward(norm, a, dy, gamma)
    assert_equal(da, oracles.gradient(lambda a: (oracle(norm, a, gamma) * dy).sum(), a))
    gain = np.ones(FEATURES) if gamma is None else gamma
    exact = oracles.gradient(lambda gamma: (oracle(norm, a, gamma) * dy).sum(), gain)
    assert_equal(np.sum(d_gamma, axis=tuple(range(len(shape) - 1))), exact)
    assert_equal(d_beta, dy)


def test_a_mask_and_moving_statistics_do_not_change_the_statistics():
    """A per-sample norm takes the arguments of a batch norm, and ignores them."""
    a, norm = tf.constant(draw(ROWS, FEATURES)), NORMS["layer"]
    unmasked, moving = tf.zeros([ROWS, 1], "bool"), [tf.ones([1, FEATURES], "float64")] * 2
    for given, alone in zip(norm.statistics(a, unmasked, moving), norm.statistics(a), strict=True):
        assert_equal(given, alone)


# Rows of zero mean ------------------------------------------------------------------------------


@every_layer_norm
def test_rows_of_zero_mean_need_no_mean(norm):
    """A centered kernel gives rows of zero mean, so the recurrence subtracts no mean."""
    a, dy = draw(ROWS, FEATURES), draw(ROWS, FEATURES, seed=1)
    a, gamma = a - a.mean(axis=1, keepdims=True), draw(FEATURES)
    uncentered = dataclasses.replace(norm, center=False)
    assert len(uncentered.statistics(tf.constant(a))) == 1
    assert_equal(normalize(uncentered, a, gamma), oracle(norm, a, gamma))
    da, d_gamma, d_beta = backward(uncentered, a, dy, gamma)
    da -= np.mean(da, axis=1, keepdims=True)  # the gradient of the centered kernel has no mean
    for found, exact in zip((da, d_gamma, d_beta), backward(norm, a, dy, gamma), strict=True):
        assert_equal(found, exact)


# Constant rows ----------------------------------------------------------------------------------


@every_layer_norm
def test_the_gradient_of_a_constant_row_is_that_of_a_centered_row_over_epsilon(norm):
    """The deviation is 0, so y = (a - mean) / epsilon or (a - mean) / sqrt(epsilon)."""
    a, dy = np.full((ROWS, FEATURES), 2.0), draw(ROWS, FEATURES)
    da, d_gamma, _ = backward(norm, a, dy)
    divisor = norm.epsilon if norm.outside else np.sqrt(norm.epsilon)
    assert_equal(da, (dy - dy.mean(axis=1, keepdims=True)) / divisor)
    assert_equal(d_gamma, 0.0)
    assert_equal(normalize(norm, a), 0.0)


def test_rms_norm_of_zeros_is_zero_and_its_gradient_is_finite():
    norm, zeros, dy = NORMS["rms"], np.zeros((ROWS, FEATURES)), draw(ROWS, FEATURES)
    assert_equal(normalize(norm, zeros), 0.0)
    assert_equal(backward(norm, zeros, dy)[0], dy / np.sqrt(norm.epsilon))


@pytest.mark.parametrize("ddof", [0, 1])
def test_the_gradient_of_an_almost_constant_row_is_finite_with_epsilon_outside(ddof):
    """In float32, 1 - epsilon * r rounds to 0 for a deviation far below epsilon."""
    norm = SampleNorm(True, 1e-3, ddof=ddof, outside=True)
    a = np.float32(1e-12) * draw(ROWS, FEATURES).astype("float32")
    dy = draw(ROWS, FEATURES).astype("float32")
    da, _, _ = backward(norm, a, dy)
    np.testing.assert_allclose(da, (dy - dy.mean(axis=1, keepdims=True)) / 1e-3, rtol=1e-3)


# Programs ---------------------------------------------------------------------------------------


def test_norms_with_equal_options_are_equal_and_share_a_program():
    assert SampleNorm(True, 1e-3) == SampleNorm(True, 1e-3)
    assert len({*NORMS.values(), *map(dataclasses.replace, NORMS.values())}) == len(NORMS)
