"""Mean and variance in float32 or wider, with a mask."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_norm.ops.gradients import Gradient, with_gradient
from keras_norm.ops.sums import total


class Moments(NamedTuple):
    """First two moments of a tensor, with the reduced axes kept at size one.

    `centred` is x - mean before the mean was rounded to its own dtype: subtracting the rounded mean
    again would lose the digits of inputs that are small beside their mean.
    """

    centred: Any
    mean: Any
    variance: Any
    count: Any


def statistics_dtype(dtype: Any) -> str:
    """The dtype that statistics are computed in: float32, or the input's own if that is wider."""
    return keras.backend.result_type(dtype, "float32")


def identity(x: Any) -> Any:
    """Return `x`: the sum over replicas where there is one replica."""
    return x


def moments(
    x: Any,
    axes: Sequence[int],
    mask: Any = None,
    all_reduce: Callable[[Any], Any] = identity,
    fewest: int = 0,
    otherwise: tuple[Any, Any] | None = None,
) -> Moments:
    """Mean and biased variance of `x` over `axes`, of the positions that `mask` keeps.

    Three passes, after Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance"
    (1983): a first mean to shift by, the mean of what is left, then the squares::

        s = sum(x) / n        r = sum(x - s) / n        mean = s + r        centred = (x - s) - r
        variance = sum(centred^2) / n

    `s` is exact enough only to shift by; `r` repairs its rounding, so that a mean of 1e7 costs
    float32 inputs nothing. As sum(centred) = 0, the gradient is::

        dx = dcentred + (dmean - sum(dcentred) + 2 * centred * dvariance) / n

    of which a position that the mask drops, but which is centred too, has the first term alone.

    Args:
        x: tensor of any rank and floating dtype.
        axes: axes to reduce, sorted, each in [0, rank).
        mask: bool tensor that broadcasts to `x`, True where a position counts; None for all.
        all_reduce: sums a tensor over the replicas of a distributed step.
        fewest: positions that statistics need, at least.
        otherwise: mean and variance that stand where fewer positions count, and have no gradient.

    Returns:
        `Moments` in float32 or wider. Where nothing counts, and there are none to stand in, mean
        and variance are 0.
    """
    x = ops.cast(x, statistics_dtype(x.dtype))
    axes = list(axes)
    n = all_reduce(_count(x, axes, mask))
    # A NaN that the mask hides must not reach a gradient: 0 * NaN is NaN.
    if mask is not None:
        x = ops.where(ops.logical_or(mask, ops.isfinite(x)), x, 0.0)
    centred, mean, variance = with_gradient(
        partial(_moments, axes, all_reduce, fewest), x, n, mask, *(otherwise or ())
    )
    return Moments(centred, mean, variance, n)


def mean_square(x: Any, axes: Sequence[int]) -> Any:
    """Mean of x^2 over `axes`, which are kept at size one.

    ::

        m = sum(x^2) / n        dx = 2 * x * dm / n

    Args:
        x: floating tensor, whose sizes along `axes` are known.
        axes: axes to reduce, sorted, each in [0, rank).
    """
    n = math.prod(x.shape[a] for a in axes)

    def function(x: Any) -> tuple[Any, Gradient]:
        return total(x * x, axes) / n, lambda dm: [x * (dm * (2.0 / n))]

    return with_gradient(function, x)


def _moments(
    axes: list[int],
    all_reduce: Callable[[Any], Any],
    fewest: int,
    x: Any,
    n: Any,
    mask: Any,
    *otherwise: Any,
) -> tuple[Any, Gradient]:
    """Centred values, mean and variance, with their gradient."""
    valid = n >= fewest
    share = 1.0 / ops.maximum(n, 1.0)

    def kept(values: Any) -> Any:
        return values if mask is None else ops.where(mask, values, 0.0)

    def average(values: Any) -> Any:
        return all_reduce(total(kept(values), axes)) * share

    shift = average(x)
    shifted = x - shift
    residual = average(shifted)
    if otherwise:
        residual = ops.where(valid, residual, otherwise[0] - shift)
    centred = shifted - residual
    variance = average(centred * centred)  # TFLite computes no square in 16 bits
    if otherwise:
        variance = ops.where(valid, variance, otherwise[1])

    def gradient(d_centred: Any, d_mean: Any, d_variance: Any) -> list[Any]:
        learned = ops.where(valid, share, 0.0) if otherwise else share
        # What stands in may differ along the reduced axes.
        d_mean, d_variance = (
            total(d, [a for a in axes if d.shape[a] != 1]) for d in (d_mean, d_variance)
        )
        offset = all_reduce(d_mean - total(d_centred, axes)) * learned
        slope = all_reduce(2.0 * d_variance) * learned
        return [d_centred + kept(centred * slope + offset)]

    return (centred, shift + residual, variance), gradient


def _count(x: Any, axes: list[int], mask: Any) -> Any:
    """Number of positions reduced, with the reduced axes kept at size one."""
    counted = ops.cast(ops.ones([1] * len(x.shape)) if mask is None else mask, x.dtype)
    kept = ops.sum(counted, axes, keepdims=True)
    size = ops.shape(x)
    for axis in axes:
        if counted.shape[axis] is None or counted.shape[axis] != x.shape[axis]:
            # An empty batch has no rows, and a mask of none.
            there = ops.maximum(ops.shape(counted)[axis], 1)
            kept = kept * ops.cast(size[axis] // there, x.dtype)
    return kept
