"""Compute means and variances of unmasked values, in float32 or a wider dtype."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import keras
from keras import ops
from numpy.typing import DTypeLike

from keras_norm.ops.custom_gradient import Gradient, with_custom_gradient
from keras_norm.ops.sums import total
from keras_norm.typing import Tensor


class Moments(NamedTuple):
    """A tensor minus its mean, the mean, the variance, and the number of unmasked values.

    The reduced axes have size 1.

    `centered` is x - mean, computed before the mean is rounded to its dtype. To subtract the
    rounded mean instead would lose the digits of a deviation that is small compared with the mean.
    """

    centered: Tensor
    mean: Tensor
    variance: Tensor
    count: Tensor


def statistics_dtype(dtype: DTypeLike) -> str:
    """Return the dtype in which statistics are computed: float32, or `dtype` if it is wider."""
    wider: str = keras.backend.result_type(dtype, "float32")
    return wider


def identity(x: Tensor) -> Tensor:
    """Return `x` unchanged: with one replica, `x` is the sum over all replicas."""
    return x


def moments(
    x: Tensor,
    axes: Sequence[int],
    mask: Tensor | None = None,
    all_reduce: Callable[[Tensor], Tensor] = identity,
    min_count: int = 0,
    fallback: tuple[Tensor, Tensor] | None = None,
) -> Moments:
    """Compute the mean and biased variance of the unmasked values of `x` over `axes`.

    The algorithm has three passes (Chan, Golub and LeVeque, "Algorithms for Computing the Sample
    Variance", 1983)::

        s = sum(x) / n        r = sum(x - s) / n        mean = s + r        centered = (x - s) - r
        variance = sum(centered^2) / n

    `s` has a rounding error, and `r` corrects it: a mean of 1e7 costs float32 inputs no digits. As
    sum(centered) = 0, the gradient is::

        dx = dcentered + (dmean - sum(dcentered) + 2 * centered * dvariance) / n

    Masked positions are centered too, and their gradient is dcentered only.

    Args:
        x: tensor of any rank and floating dtype.
        axes: axes to reduce, sorted, each in [0, rank).
        mask: bool tensor that broadcasts to `x`, True at unmasked positions; None for no mask.
        all_reduce: sums a tensor over the replicas of a distributed step.
        min_count: smallest number of unmasked positions that gives statistics.
        fallback: mean and variance to use with fewer unmasked positions. They get no gradient.

    Returns:
        `Moments` in float32 or wider. Without unmasked positions and without a fallback, mean and
        variance are 0.
    """
    x = ops.cast(x, statistics_dtype(x.dtype))
    axes = list(axes)
    n = all_reduce(_count_unmasked(x, axes, mask))
    # Set masked NaN and inf to 0: otherwise the gradient would be NaN, because 0 * NaN is NaN.
    if mask is not None:
        x = ops.where(ops.logical_or(mask, ops.isfinite(x)), x, 0.0)
    centered, mean, variance = with_custom_gradient(
        partial(_moments, axes, all_reduce, min_count), x, n, mask, *(fallback or ())
    )
    return Moments(centered, mean, variance, n)


def mean_square(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Compute the mean of x^2 over `axes`; the reduced axes have size 1.

    ::

        m = sum(x^2) / n        dx = 2 * x * dm / n

    Args:
        x: floating tensor with static sizes along `axes`.
        axes: axes to reduce, sorted, each in [0, rank).
    """
    n = math.prod(x.shape[a] for a in axes)

    def function(x: Tensor) -> tuple[Tensor, Gradient]:
        return total(x * x, axes) / n, lambda dm: [x * (dm * (2.0 / n))]

    return with_custom_gradient(function, x)


def _moments(
    axes: list[int],
    all_reduce: Callable[[Tensor], Tensor],
    min_count: int,
    x: Tensor,
    n: Tensor,
    mask: Tensor | None,
    *fallback: Tensor,
) -> tuple[tuple[Tensor, Tensor, Tensor], Gradient]:
    """Return the centered values, the mean and the variance of x, and their gradient function."""
    valid = n >= min_count
    share = 1.0 / ops.maximum(n, 1.0)

    def masked(values: Tensor) -> Tensor:
        return values if mask is None else ops.where(mask, values, 0.0)

    def average(values: Tensor) -> Tensor:
        return all_reduce(total(masked(values), axes)) * share

    shift = average(x)
    shifted = x - shift
    residual = average(shifted)
    if fallback:
        residual = ops.where(valid, residual, fallback[0] - shift)
    centered = shifted - residual
    # Multiply instead of squaring: TFLite's SQUARE has no 16-bit kernel.
    variance = average(centered * centered)
    if fallback:
        variance = ops.where(valid, variance, fallback[1])

    def gradient(d_centered: Tensor, d_mean: Tensor, d_variance: Tensor) -> list[Tensor | None]:
        valid_share = ops.where(valid, share, 0.0) if fallback else share
        # The returned mean and variance have a size of 1 along a reduced axis, or the size of
        # `fallback`. So do their gradients: sum these over the reduced axes with a size above 1.
        d_mean, d_variance = (
            total(d, [a for a in axes if d.shape[a] != 1]) for d in (d_mean, d_variance)
        )
        offset = all_reduce(d_mean - total(d_centered, axes)) * valid_share
        slope = all_reduce(2.0 * d_variance) * valid_share
        return [d_centered + masked(centered * slope + offset)]

    return (centered, shift + residual, variance), gradient


def _count_unmasked(x: Tensor, axes: list[int], mask: Tensor | None) -> Tensor:
    """Count the unmasked values of `x` over `axes`; the reduced axes have size 1."""
    unmasked = ops.cast(ops.ones([1] * len(x.shape)) if mask is None else mask, x.dtype)
    count = ops.sum(unmasked, axes, keepdims=True)
    size = ops.shape(x)
    for axis in axes:
        if unmasked.shape[axis] is None or unmasked.shape[axis] != x.shape[axis]:
            # The mask of an empty batch has zero rows: avoid a division by zero.
            mask_size = ops.maximum(ops.shape(unmasked)[axis], 1)
            count = count * ops.cast(size[axis] // mask_size, x.dtype)
    return count
