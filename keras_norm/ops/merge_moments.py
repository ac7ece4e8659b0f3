"""Combine means and variances of several sets of values."""

from collections.abc import Callable

from keras import ops

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


def reduce_moments(
    count: Tensor, mean: Tensor, variance: Tensor, total: Callable[[Tensor], Tensor]
) -> Moments:
    """Combine the counts, means and variances of many sets of values by sums over the sets.

    ::

        N = sum(n)        s = sum(n m) / N        r = sum(n (m - s)) / N        mean = s + r
        variance = sum(n (v + (m - s)^2)) / N - r^2

    `r` corrects the rounding error of `s`, as in `keras_norm.ops.moments`.

    Args:
        count: n, the number of values of each set; 0 for an empty set.
        mean: m; finite for an empty set too.
        variance: v; finite for an empty set too.
        total: sums a tensor over the sets, for example over timesteps. The sums broadcast
            to the tensor.

    Returns:
        N, mean and variance of all values. Without values, they are 0.
    """
    n = total(count)
    share = count / ops.maximum(n, 1.0)
    s = total(share * mean)
    d = mean - s
    r = total(share * d)
    return n, s + r, ops.maximum(total(share * (variance + d * d)) - r * r, 0.0)
