"""Combine means and variances of two sets of values."""

from keras_norm.typing import Tensor

# Count, mean and variance of a set of values: NumPy arrays or tensors.
Moments = tuple[Tensor, Tensor, Tensor]

TINY = 1e-30  # TINY avoids a division by zero if both sets are empty


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Combine the count, mean and variance of two sets of values.

    ::

        share = n / (N + n)        d = m - mean
        mean += share * d          variance += share * (v - variance + (1 - share) * d^2)

    Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".

    Args:
        first: N, mean and variance of the first set.
        second: n, m and v of the second set, which broadcast to the shapes of the first set.
    """
    (count, mean, variance), (n, m, v) = first, second
    share = n / (count + n + TINY)
    d = m - mean
    spread = v - variance + (1.0 - share) * d * d
    return count + n, mean + share * d, variance + share * spread
