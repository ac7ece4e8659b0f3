"""Compare the oracles of norms with known numbers, and their gradients with differences.

tests/rnn/test_equations.py compares layers with the oracles of steps and sequences, and the same
layers with those of Keras. tests/compat compares the layers with the layers of other libraries.
"""

import numpy as np
import pytest

from tests import oracles
from tests.oracles import gradient

RNG = np.random.default_rng(0)


def central_difference(f, x, step=1e-6):
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        result[index] = (f(up) - f(down)) / (2 * step)
    return result


# Differentiation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: oracles.layer_norm(x),
        lambda x: oracles.layer_norm(x, placement="outside", ddof=1),
        lambda x: oracles.rms_norm(x),
        lambda x: oracles.variance_norm(x),
        lambda x: oracles.batch_norm_train(x)[0],
        lambda x: oracles.ghost_batch_norm_train(x, 2)[0],
        lambda x: oracles.simple_rnn_step(x, [np.ones((4, 3))], np.eye(3), np.eye(3))[0],
    ],
)
def test_complex_step_agrees_with_central_differences(function):
    x, weights = RNG.normal(size=(2, 4, 3))

    def loss(v):
        return (weights * function(v)).sum()

    np.testing.assert_allclose(gradient(loss, x), central_difference(loss, x), rtol=0, atol=1e-8)


# Per-sample norms -------------------------------------------------------------------------------


def test_per_sample_norms_equal_numbers_computed_by_hand():
    # The mean is 2 and the variance 2/3, so an epsilon of 1/3 gives the divisor 1.
    y = oracles.layer_norm(np.array([[1.0, 2.0, 3.0]]), [1, 2, 3], [0, 5, 0], epsilon=1 / 3)
    np.testing.assert_allclose(y, [[-1, 5, 3]], rtol=1e-15)
    # The deviations are -2, 0, 2, the variance 8 / (3 - 1) = 4, and the divisor 2 + 2.
    y = oracles.layer_norm(np.array([0.0, 2.0, 4.0]), epsilon=2, placement="outside", ddof=1)
    np.testing.assert_allclose(y, [-0.5, 0, 0.5], rtol=1e-15)
    np.testing.assert_allclose(
        oracles.rms_norm(np.array([3.0, 4.0]), [1, 2], epsilon=12.5), [0.6, 1.6]
    )
    # The variance is 1; the mean is not subtracted.
    np.testing.assert_allclose(oracles.variance_norm(np.array([1.0, 3.0]), epsilon=3), [0.5, 1.5])


@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (-2, 0)])
def test_gamma_has_the_axes_in_ascending_order(axes):
    x = np.array([[[1.0], [3.0]], [[5.0], [7.0]]])  # mean 4, variance 5
    y = oracles.layer_norm(x, np.array([[1.0, 2.0], [3.0, 4.0]]), axes=axes, epsilon=4)
    np.testing.assert_allclose(y[..., 0], [[-1, -2 / 3], [1, 4]])


# Batch normalization ----------------------------------------------------------------------------


def test_batch_norm_equals_numbers_computed_by_hand():
    x = np.array([[1.0, 0.0], [np.nan, np.nan], [3.0, 4.0]])
    y, mean, variance = oracles.batch_norm_train(
        x, [1, 10], [0, 1], epsilon=0, mask=np.array([True, False, True])
    )
    np.testing.assert_allclose([mean, variance], [[2, 2], [1, 4]])
    np.testing.assert_allclose(y[[0, 2]], [[-1, -9], [1, 11]])
    np.testing.assert_allclose(oracles.batch_statistics([[1.0], [3.0]], ddof=1)[1], [2])


def test_ghost_batches_equal_numbers_computed_by_hand():
    # Five rows in ghost batches of at most two rows: 0 and 1, 2 and 3, 4.
    x = np.array([[0.0], [2], [10], [14], [7]])
    y, mean, variance = oracles.ghost_batch_norm_train(x, 2, epsilon=1e-12)
    np.testing.assert_allclose(y[:, 0], [-1, 1, -1, 1, 0], atol=1e-9)
    np.testing.assert_allclose([mean[0], variance[0]], [(1 + 12 + 7) / 3, (1 + 4 + 0) / 3])


# Moving statistics ------------------------------------------------------------------------------


def test_averages_equal_numbers_computed_by_hand():
    np.testing.assert_allclose(oracles.exponential_average(8, [4, 2], 0.5), 4)  # 8 -> 6 -> 4
    np.testing.assert_allclose(oracles.debiased_average([4.0, 1.0], 0.5), 1.5 / 0.75)
    np.testing.assert_allclose(oracles.cumulative_average([1.0, 2.0, 6.0]), 3)


# Batch normalization per timestep ---------------------------------------------------------------


def test_a_timestep_without_enough_sequences_updates_nothing():
    x = np.array([[[1.0], [5.0]], [[3.0], [7.0]]])
    # With the mean 2 and the variance 1 of timestep 0; with the moving mean 0 and variance 1.
    for min_sequences, expected in ((2, 3), (8, 3), (None, 5)):
        norm = oracles.TimestepBatchNorm(2, 1, min_sequences=min_sequences)
        y = oracles.timestep_batch_norm(norm, x, mask=[[1, 1], [1, 0]], training=True)
        np.testing.assert_array_equal(norm.update_count, [1, 0])
        np.testing.assert_allclose(y[0, 1], expected / np.sqrt(1 + 1e-5))


def test_timesteps_beyond_the_last_row_update_the_last_row_once():
    norm = oracles.TimestepBatchNorm(2, 1)
    x = np.array([[[0.0], [1.0], [2.0]], [[2.0], [5.0], [8.0]]])
    oracles.timestep_batch_norm(norm, x, training=True)
    np.testing.assert_allclose(norm.moving_mean, [[1], [4]])  # (3 + 5) / 2
    np.testing.assert_allclose(norm.moving_variance, [[1], [6.5]])  # (4 + 9) / 2
    np.testing.assert_array_equal(norm.update_count, [1, 1])


def test_inference_uses_the_nearest_row_that_training_updated():
    norm = oracles.TimestepBatchNorm(4, 1, epsilon=0)
    x = np.arange(8.0).reshape(2, 4, 1)
    mask = [[0, 1, 0, 0], [0, 1, 0, 0]]
    oracles.timestep_batch_norm(norm, x, mask, training=True)  # row 1: mean 3, variance 4
    y = oracles.timestep_batch_norm(norm, np.full((1, 6, 1), 7.0))
    np.testing.assert_allclose(y, np.full((1, 6, 1), 2.0))
