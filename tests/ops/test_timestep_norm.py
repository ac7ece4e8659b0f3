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
ONE_SEQUENCE = np.eye(BATCH, 1) > 0
every_mask = pytest.mark.parametrize("unmasked", MASKS.values(), ids=MASKS)
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
@every_gamma
def test_statistics_outputs_and_gradients_are_those_of_the_unmasked_sequences(unmasked, gamma):
    a, dy = draw(BATCH, FEATURES), gradients_at(unmasked, BATCH, FEATURES)
    kept = a if unmasked is None else a[unmasked[:, 0]]
    given = a if unmasked is None else np.where(unmasked, a, 1e6)
    mean, r, v = LEARNING.statistics(tf.constant(given), unmasked, MOVING)
    assert_equal(mean, kept.mean(axis=0, keepdims=True))
    assert_equal(v, kept.var(axis=0, keepdims=True))
    assert_equal(r, 1 / np.sqrt(v + EPSILON))
    assert_equal(forward(LEARNING, a, unmasked, gamma), batch_oracle(a, gamma, unmasked))
    found = backward(LEARNING, a, dy, unmasked, gamma)
    assert_gradients(found, lambda a, gamma: batch_oracle(a, gamma, unmasked), a, gamma, dy)
    if unmasked is not None:
        assert_equal(np.asarray(found[0])[~unmasked[:, 0]], 0.0)


def test_a_constant_feature_has_a_zero_output_and_a_finite_gradient():
    a, dy = np.full((BATCH, FEATURES), 2.0), draw(BATCH, FEATURES)
    assert_equal(forward(LEARNING, a, None), 0.0)
    da, d_gamma, _ = backward(LEARNING, a, dy, None)
    assert_equal(da, (dy - dy.mean(axis=0)) / np.sqrt(EPSILON))
    assert_equal(d_gamma, 0.0)


# Moving statistics ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "unmasked", "batch"),
    [
        (FROZEN, None, BATCH),
        (FROZEN, UNMASKED, BATCH),
        (LEARNING, np.zeros((BATCH, 1), bool), BATCH),
        (LEARNING, ONE_SEQUENCE, BATCH),
        (LEARNING, None, 1),
    ],
    ids=["frozen", "frozen, masked", "no sequence", "one sequence", "batch of one"],
)
@every_gamma
def test_a_frozen_norm_and_fewer_than_two_sequences_use_the_moving_statistics(
    norm, unmasked, batch, gamma
):
    """A single sequence has no variance."""
    a, dy = draw(batch, FEATURES), gradients_at(unmasked, batch, FEATURES)
    assert_equal(forward(norm, a, unmasked, gamma), moving_oracle(a, gamma))
    assert_gradients(backward(norm, a, dy, unmasked, gamma), moving_oracle, a, gamma, dy)


# All timesteps ----------------------------------------------------------------------------------


def test_each_timestep_has_its_own_statistics_mask_and_moving_statistics():
    """Timestep 1 has one unmasked sequence, so it uses its moving statistics."""
    masks = np.stack([UNMASKED, ONE_SEQUENCE, np.ones_like(UNMASKED)])
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
