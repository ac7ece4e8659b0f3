"""The density agrees with SciPy, and its gradient with finite differences."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from experiments.harness.likelihoods import mixture_nll

RNG = np.random.default_rng(0)


def by_scipy(points, raw):
    """Compute -log sum_k pi_k N_k of each point in float64."""
    found = []
    for x, row in zip(points, raw, strict=True):
        log_pi, mu_1, mu_2, log_1, log_2, r = np.split(row.astype("float64"), 6)
        log_pi = scipy.special.log_softmax(log_pi)
        logs = []
        for k in range(len(log_pi)):
            rho, s = np.tanh(r[k]), np.exp([log_1[k], log_2[k]])
            normal = scipy.stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]])
            logs.append(log_pi[k] + normal.logpdf((x - [mu_1[k], mu_2[k]]) / s) - np.log(s).sum())
        found.append(-scipy.special.logsumexp(logs))
    return np.array(found)


# At scale 3, some Gaussians are narrow, far from the points, or have a correlation of 0.9999.
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_the_density_agrees_with_scipy(scale):
    points = RNG.normal(size=(40, 2)).astype("float32")
    raw = (scale * RNG.normal(size=(40, 6 * 5))).astype("float32")
    raw[:, -5:] = np.clip(raw[:, -5:], -5, 5)
    np.testing.assert_allclose(
        mixture_nll(points, raw), by_scipy(points, raw), rtol=2e-5, atol=1e-5
    )


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_correlation_near_one_loses_no_digits(sign):
    points = np.array([[3.0, 3.0 * sign], [2.0, 2.001 * sign]], "float32")
    raw = np.tile(np.array([0, 0, 0, 0, 0, 5.0 * sign], "float32"), (2, 1))
    np.testing.assert_allclose(mixture_nll(points, raw), by_scipy(points, raw), rtol=1e-5)


def test_the_gradient_agrees_with_finite_differences():
    points, raw = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 12))
    with tf.GradientTape() as tape:
        x = tf.constant(raw)
        tape.watch(x)
        nll = mixture_nll(keras.ops.cast(points, "float64"), x)
    step = np.eye(12) * 1e-6
    differences = [(by_scipy(points, raw + s) - by_scipy(points, raw - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(tape.gradient(nll, x), np.transpose(differences), atol=1e-6)
