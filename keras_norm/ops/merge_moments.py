"""Combine means and variances of two sets of values."""

from typing import Any

TINY = 1e-30  # avoids division by zero where both sets are empty


def merge_moments(there: tuple[Any, Any, Any], new: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Combine the count, mean and variance of two sets of values.

    ::

        share = n / (N + n)        d = m - mean
        mean += share * d          variance += share * (v - variance + (1 - share) * d^2)

    Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".

    Args:
        there: N, mean and variance of the first set: NumPy arrays or tensors.
        new: n, m and v of the second set, of shapes that broadcast to those of the first.
    """
    (count, mean, variance), (n, m, v) = there, new
    share = n / (count + n + TINY)
    d = m - mean
    spread = v - variance + (1.0 - share) * d * d
    return count + n, mean + share * d, variance + share * spread
