"""Batch normalization of a step, against the NumPy oracle and its complex-step gradient."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.timestep_norm import TimestepNorm
from tests import oracles

BATCH, FEATURES, EPSILON = 5, 3, 1e-3
LEARNING, FROZEN = TimestepNorm(EPSILON, True), TimestepNorm(EPSILON, False)
UNMASKED = np.array([[1], [0], [1], [1], [0]], bool)
MASKS = {"unmasked": None, "masked": UNMASKED}
TOO_FEW = {"no sequence": np.zeros((BATCH, 1), bool), "one sequence": np.eye(BATCH, 1) > 0}
every_mask = pytest.mark.parametrize("unmasked", MASKS.values(), ids=MASKS)
too_few_sequences = pytest.mark.parametrize("unmasked", TOO_FEW.values(), ids=TOO_FEW)
every_gamma = pytest.mark.parametrize(
    "gamma", [None, np.array([0.5, -1.0, 2.0])], ids=["no gamma", "gamma"]
)


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


# Moving mean and variance, and the moving statistics of the norm: mean and r.
MEAN, VARIANCE = draw(1, FEATURES), draw(1, FEATURES, seed=1) ** 2
MOVING = [tf.constant(MEAN), tf.constant(1 / np.sqrt(VARIANCE + EPSILON))]


def gradients_at(unmasked, *shape):
    """Draw dy, which is zero at masked sequences."""
    dy = draw(*shape, seed=2)
    return dy if unmasked is None else np.where(unmasked, dy, 0.0)


def forward(norm, a, unmasked, gamma=None):
    a = tf.constant(a)
    return norm.apply(a, norm.statistics(a, unmasked, MOVING), gamma)


def backward(norm, a, dy, unmasked, gamma=None):
    a = tf.constant(a)
    statistics = norm.statistics(a, unmasked, MOVING)
    return norm.backward(a, tf.constant(dy), statistics, gamma, unmasked)


def batch_oracle(a, gamma, unmasked):
    """Normalize with the statistics of the unmasked sequences."""
    mask = None if unmasked is None else unmasked[:, 0]
    y, *_ = oracles.batch_norm_train(a, gamma, epsilon=EPSILON, mask=mask)
    return y


def moving_oracle(a, gamma):
    """Normalize with the moving statistics."""
    return oracles.batch_norm_inference(a, MEAN, VARIANCE, gamma, epsilon=EPSILON)


def assert_equal(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def assert_gradients(found, run, a, gamma, dy):
    """Compare gradients of `a`, gamma and beta with those of run(a, gamma)."""
    da, d_gamma, d_beta = found
    assert_equal(da, oracles.gradient(lambda a: (run(a, gamma) * dy).sum(), a))
    gamma = np.ones(FEATURES) if gamma is None else gamma
    expected = oracles.gradient(lambda gamma: (run(a, gamma) * dy).sum(), gamma)
    assert_equal(d_gamma, expected[None])
    assert_equal(d_beta, dy.sum(axis=0, keepdims=True))


# Statistics of the batch ------------------------------------------------------------------------


@every_mask
def test_the_statistics_are_those_of_the_unmasked_sequences(unmasked):
    a = draw(BATCH, FEATURES)
    kept = a if unmasked is None else a[unmasked[:, 0]]
    mean, r, v = LEARNING.statistics(tf.constant(a), unmasked, MOVING)
    assert_equal(mean, kept.mean(axis=0, keepdims=True))
    assert_equal(v, kept.var(axis=0, keepdims=True))
    assert_equal(r, 1 / np.sqrt(v + EPSILON))


def test_masked_sequences_do_not_change_the_statistics():
    a = draw(BATCH, FEATURES)
    other = np.where(UNMASKED, a, 1e6)
    statistics = (LEARNING.statistics(tf.constant(x), UNMASKED, MOVING) for x in (a, other))
    for found, expected in zip(*statistics, strict=True):
        assert_equal(found, expected)


@every_mask
@every_gamma
def test_the_forward_pass_equals_the_oracle(unmasked, gamma):
    a = draw(BATCH, FEATURES)
    assert_equal(forward(LEARNING, a, unmasked, gamma), batch_oracle(a, gamma, unmasked))


@every_mask
@every_gamma
def test_the_gradients_include_those_through_the_statistics(unmasked, gamma):
    a, dy = draw(BATCH, FEATURES), gradients_at(unmasked, BATCH, FEATURES)
    found = backward(LEARNING, a, dy, unmasked, gamma)
    assert_gradients(found, lambda a, gamma: batch_oracle(a, gamma, unmasked), a, gamma, dy)


def test_masked_sequences_have_no_gradient():
    a, dy = draw(BATCH, FEATURES), gradients_at(UNMASKED, BATCH, FEATURES)
    da, _, _ = backward(LEARNING, a, dy, UNMASKED)
    assert_equal(np.asarray(da)[~UNMASKED[:, 0]], 0.0)


def test_a_constant_feature_has_a_zero_output_and_a_finite_gradient():
    a, dy = np.full((BATCH, FEATURES), 2.0), draw(BATCH, FEATURES)
    assert_equal(forward(LEARNING, a, None), 0.0)
    da, d_gamma, _ = backward(LEARNING, a, dy, None)
    assert_equal(da, (dy - dy.mean(axis=0)) / np.sqrt(EPSILON))
    assert_equal(d_gamma, 0.0)


# Moving statistics ------------------------------------------------------------------------------


@every_mask
@every_gamma
def test_a_norm_that_does_not_learn_uses_the_moving_statistics(unmasked, gamma):
    a, dy = draw(BATCH, FEATURES), gradients_at(unmasked, BATCH, FEATURES)
    assert_equal(forward(FROZEN, a, unmasked, gamma), moving_oracle(a, gamma))
    assert_gradients(backward(FROZEN, a, dy, unmasked, gamma), moving_oracle, a, gamma, dy)


@too_few_sequences
@every_gamma
def test_fewer_than_two_unmasked_sequences_use_the_moving_statistics(unmasked, gamma):
    """A single sequence has no variance."""
    a, dy = draw(BATCH, FEATURES), gradients_at(unmasked, BATCH, FEATURES)
    assert_equal(forward(LEARNING, a, unmasked, gamma), moving_oracle(a, gamma))
    assert_gradients(backward(LEARNING, a, dy, unmasked, gamma), moving_oracle, a, gamma, dy)


def test_a_batch_of_one_sequence_uses_the_moving_statistics():
    a, dy = draw(1, FEATURES), draw(1, FEATURES, seed=2)
    assert_equal(forward(LEARNING, a, None), moving_oracle(a, None))
    assert_gradients(backward(LEARNING, a, dy, None), moving_oracle, a, None, dy)


# All timesteps ----------------------------------------------------------------------------------


def test_each_timestep_has_its_own_statistics_mask_and_moving_statistics():
    """Timestep 1 has one unmasked sequence, so it uses its moving statistics."""
    masks = np.stack([UNMASKED, TOO_FEW["one sequence"], np.ones_like(UNMASKED)])
    time, gamma = len(masks), draw(FEATURES)
    a, dy = draw(time, BATCH, FEATURES), gradients_at(masks, time, BATCH, FEATURES)
    moving = [tf.constant(draw(time, 1, FEATURES, seed=s) ** 2) for s in (3, 4)]

    def run(a, dy, unmasked, moving):
        a = tf.constant(a)
        statistics = LEARNING.statistics(a, unmasked, moving)
        gradients = LEARNING.backward(a, tf.constant(dy), statistics, gamma, unmasked)
        return [*statistics, LEARNING.apply(a, statistics, gamma), *gradients]

    together = run(a, dy, masks, moving)
    for t in range(time):
        alone = run(a[t], dy[t], masks[t], [m[t] for m in moving])
        for found, expected in zip(together, alone, strict=True):
            assert_equal(found[t], expected)
