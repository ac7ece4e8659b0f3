"""Norms of a step where features are constant; tests/rnn compares them with the equations."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import TimestepNorm

BATCH, FEATURES = 5, 4
# tests/rnn/core/test_product.py tests these norms too.
NORMS = {
    "layer": SampleNorm(True, 1e-3),
    "rms": SampleNorm(False, 1e-3),
    "ddof": SampleNorm(True, 1e-3, ddof=1),
    "outside": SampleNorm(True, 0.1, outside=True),
    "ddof, outside": SampleNorm(True, 0.1, ddof=1, outside=True),
    "batch": TimestepNorm(1e-3, learning=True),
}
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


MOVING = [tf.constant(draw(1, FEATURES)), tf.constant(draw(1, FEATURES, seed=1) ** 2)]


def run(norm, a, dy):
    """Return the outputs, and the gradients of `a` and of gamma."""
    a = tf.constant(a)
    statistics = norm.statistics(a, None, MOVING)
    da, d_gamma, _ = norm.backward(a, tf.constant(dy), statistics, None, None)
    return norm.apply(a, statistics, None), da, d_gamma


def assert_equal(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@every_norm
def test_constant_features_have_a_zero_output_and_a_finite_gradient(norm):
    """The deviation is 0, so y = (a - mean) / epsilon or (a - mean) / sqrt(epsilon).

    The mean of dy in the gradient belongs to a norm that subtracts the mean.
    """
    a, dy = np.full((BATCH, FEATURES), 2.0), draw(BATCH, FEATURES)
    axis = 0 if isinstance(norm, TimestepNorm) else 1
    mean = dy.mean(axis=axis, keepdims=True)
    if norm is NORMS["rms"]:
        a, mean = 0.0 * a, 0.0
    y, da, d_gamma = run(norm, a, dy)
    outside = getattr(norm, "outside", False)
    assert_equal(da, (dy - mean) / (norm.epsilon if outside else np.sqrt(norm.epsilon)))
    assert_equal(d_gamma, 0.0)
    assert_equal(y, 0.0)


@pytest.mark.parametrize("ddof", [0, 1])
def test_the_gradient_of_an_almost_constant_row_is_finite_with_epsilon_outside(ddof):
    """In float32, 1 - epsilon * r rounds to 0 for a deviation far below epsilon."""
    norm = SampleNorm(True, 1e-3, ddof=ddof, outside=True)
    a = np.float32(1e-12) * draw(BATCH, FEATURES).astype("float32")
    dy = draw(BATCH, FEATURES).astype("float32")
    _, da, _ = run(norm, a, dy)
    np.testing.assert_allclose(da, (dy - dy.mean(axis=1, keepdims=True)) / 1e-3, rtol=1e-3)


def test_norms_with_equal_options_are_equal_and_share_a_program():
    assert SampleNorm(True, 1e-3) == SampleNorm(True, 1e-3)
    assert len({*NORMS.values(), *map(dataclasses.replace, NORMS.values())}) == len(NORMS)
