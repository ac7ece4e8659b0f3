"""Negative log-likelihoods in nats: a mixture of Gaussians (Graves 2013) and a Bernoulli."""

import math
from typing import Any

import numpy as np
import scipy.special
from keras import ops

NUMBERS = 6  # parameters of a Gaussian in a mixture


def mixture_nll(points: Any, raw: Any) -> Any:
    """Compute the negative log-likelihood of points, in nats.

    ::

        -log sum_k pi_k N(x | mu_k, sigma_k, rho_k)
        log N = -log 2 pi - log sigma_1 - log sigma_2 - log(1 - rho^2) / 2 - Q / 2
        Q = (z_1^2 + z_2^2 - 2 rho z_1 z_2) / (1 - rho^2), z = (x - mu) / sigma

    The parameters are log pi up to a constant, mu, log sigma and r with rho = tanh r. Then::
        Q = ((z_1 + z_2)^2 (1 + exp(-2 r)) + (z_1 - z_2)^2 (1 + exp(2 r))) / 4
        -log(1 - rho^2) / 2 = log cosh r = log(1 + exp(2 r)) - r - log 2

    These have no difference of large numbers, even if the correlation is near 1.

    Args:
        points: (..., 2).
        raw: (..., 6 K): log pi, mu_1, mu_2, log sigma_1, log sigma_2 and r, K of each.

    Returns:
        (...).
    """
    log_pi, mu_1, mu_2, log_sigma_1, log_sigma_2, r = ops.split(raw, NUMBERS, axis=-1)
    z_1 = (points[..., :1] - mu_1) * ops.exp(-log_sigma_1)
    z_2 = (points[..., 1:] - mu_2) * ops.exp(-log_sigma_2)
    q = ops.square(z_1 + z_2) * (1 + ops.exp(-2 * r)) + ops.square(z_1 - z_2) * (1 + ops.exp(2 * r))
    log_cosh = ops.softplus(2 * r) - r - math.log(2)
    log_n = -math.log(2 * math.pi) - log_sigma_1 - log_sigma_2 + log_cosh - q / 8
    return -ops.logsumexp(ops.log_softmax(log_pi) + log_n, axis=-1)


def bernoulli_nll(happens: Any, logits: Any) -> Any:
    """Compute -log p for an event and -log(1 - p) otherwise, in nats; p = 1 / (1 + exp(-logit))."""
    return ops.softplus(logits) - happens * logits


def sampled(raw: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a point from each mixture.

    Args:
        raw: (mixtures, 6 K), the parameters as in `mixture_nll`.
        rng: random number generator.

    Returns:
        (mixtures, 2).
    """
    log_pi, *others = np.split(raw.astype("float64"), NUMBERS, axis=-1)
    pi = scipy.special.softmax(log_pi, axis=-1)
    passed = np.cumsum(pi, axis=-1)[:, :-1] < rng.random((len(pi), 1))
    chosen = passed.sum(axis=-1)
    mu_1, mu_2, log_sigma_1, log_sigma_2, r = (a[np.arange(len(a)), chosen] for a in others)
    e_1, e_2 = rng.standard_normal((2, len(raw)))
    x_2 = mu_2 + np.exp(log_sigma_2) * (np.tanh(r) * e_1 + e_2 / np.cosh(r))
    return np.stack([mu_1 + np.exp(log_sigma_1) * e_1, x_2], axis=-1)
