"""Norms of a step, against the NumPy oracle and its complex-step gradient.

tests/rnn/test_batch_statistics.py tests timesteps that use the moving statistics.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.grouped_norm import group_norms
from keras_norm.ops.sample_norm import SampleNorm
from keras_norm.ops.timestep_norm import TimestepNorm
from tests import oracles

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
UNMASKED = np.array([[1], [0], [1], [1], [0]], bool)
every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


MOVING = [tf.constant(draw(1, FEATURES)), tf.constant(draw(1, FEATURES, seed=1) ** 2)]


def oracle(norm, a, gamma=None, unmasked=None):
    """Normalize one timestep with NumPy; `a` may be complex."""
    if isinstance(norm, TimestepNorm):
        mask = None if unmasked is None else unmasked[:, 0]
        return oracles.batch_norm_train(a, gamma, epsilon=norm.epsilon, mask=mask)[0]
    if not norm.center:
        return oracles.rms_norm(a, gamma, epsilon=norm.epsilon)
    placement = "outside" if norm.outside else "inside"
    return oracles.layer_norm(a, gamma, epsilon=norm.epsilon, placement=placement, ddof=norm.ddof)


def run(norm, a, dy, gamma=None, unmasked=None):
    """Return the outputs, the gradients of `a`, and the sums over all rows of d gamma, d beta."""
    a = tf.constant(a)
    statistics = norm.statistics(a, unmasked, MOVING)
    da, *of_rows = norm.backward(a, tf.constant(dy), statistics, gamma, unmasked)
    rows = tuple(range(len(a.shape) - 1))
    return norm.apply(a, statistics, gamma), da, *(np.sum(d, axis=rows) for d in of_rows)


def assert_equal(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@every_norm
@pytest.mark.parametrize("gamma", [None, draw(FEATURES)], ids=["no gamma", "gamma"])
@pytest.mark.parametrize("unmasked", [None, UNMASKED], ids=["unmasked", "masked"])
def test_outputs_and_gradients_equal_the_oracle_at_each_timestep(norm, gamma, unmasked):
    """A batch norm has other statistics at each timestep. A per-sample norm ignores the mask."""
    a, dy = draw(2, BATCH, FEATURES), draw(2, BATCH, FEATURES, seed=1)
    dy = dy if unmasked is None else np.where(unmasked, dy, 0.0)

    def loss(a, gamma):
        return sum((oracle(norm, a[t], gamma, unmasked) * dy[t]).sum() for t in range(2))

    y, da, d_gamma, d_beta = run(norm, a, dy, gamma, unmasked)
    assert_equal(y, [oracle(norm, step, gamma, unmasked) for step in a])
    assert_equal(da, oracles.gradient(lambda a: loss(a, gamma), a))
    gain = np.ones(FEATURES) if gamma is None else gamma
    assert_equal(d_gamma, oracles.gradient(lambda gamma: loss(a, gamma), gain))
    assert_equal(d_beta, dy.sum(axis=(0, 1)))
    if unmasked is not None and norm is NORMS["batch"]:
        again = run(norm, np.where(unmasked, a, 1e6), dy, gamma, unmasked)
        for found, expected in zip(again[1:], (da, d_gamma, d_beta), strict=True):
            assert_equal(found, expected)


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
    y, da, d_gamma, _ = run(norm, a, dy)
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
    _, da, _, _ = run(norm, a, dy)
    np.testing.assert_allclose(da, (dy - dy.mean(axis=1, keepdims=True)) / 1e-3, rtol=1e-3)


def test_norms_with_equal_options_are_equal_and_share_a_program():
    assert SampleNorm(True, 1e-3) == SampleNorm(True, 1e-3)
    assert len({*NORMS.values(), *map(dataclasses.replace, NORMS.values())}) == len(NORMS)


# Groups of features -----------------------------------------------------------------------------


def test_a_grouped_norm_normalizes_each_group_of_features():
    norm, gamma = NORMS["ddof"], draw(2 * FEATURES)
    a, dy = (draw(BATCH, 2 * FEATURES, seed=seed) for seed in (0, 1))
    whole = run(group_norms([norm, norm]), a, dy, gamma)
    halves = (np.split(x, 2, axis=-1) for x in (a, dy, gamma))
    parts = [run(norm, *half) for half in zip(*halves, strict=True)]
    for found, expected in zip(whole, zip(*parts, strict=True), strict=True):
        assert_equal(found, np.concatenate(expected, axis=-1))


def test_other_norms_are_not_grouped():
    layer, rms = NORMS["layer"], NORMS["rms"]
    for norms in ([layer], [layer, rms], [layer, None], [NORMS["batch"]] * 2):
        assert group_norms(norms) is None
