"""Mean and variance in float32 or wider, with a mask, and the normalization that uses them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops


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
) -> Moments:
    """Mean and biased variance of `x` over `axes`, of the positions that `mask` keeps.

    Three passes, after Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance"
    (1983): a first mean to shift by, the mean of what is left, then the squares::

        s = sum(x) / n        r = sum(x - s) / n        mean = s + r
        variance = sum((x - s - r)^2) / n

    `s` is exact enough only to shift by; `r` repairs its rounding, so that a mean of 1e7 costs
    float32 inputs nothing. As mean = s + r for every s, `s` needs no gradient.

    Args:
        x: tensor of any rank and floating dtype.
        axes: axes to reduce, each in [0, rank).
        mask: bool tensor that broadcasts to `x`, True where a position counts; None for all.
        all_reduce: sums a tensor over the replicas of a distributed step.

    Returns:
        `Moments` in float32 or wider. Where nothing counts, mean and variance are 0.
    """
    x = ops.cast(x, statistics_dtype(x.dtype))
    axes = list(axes)
    n = all_reduce(_count(x, axes, mask))

    def average(values: Any) -> Any:
        if mask is not None:
            values = ops.where(mask, values, 0.0)
        return all_reduce(ops.sum(values, axes, keepdims=True)) / ops.maximum(n, 1.0)

    # A NaN that the mask hides must not reach a gradient: 0 * NaN is NaN.
    if mask is not None:
        x = ops.where(ops.logical_or(mask, ops.isfinite(x)), x, 0.0)
    shift = ops.stop_gradient(average(x))
    residual = average(x - shift)
    centred = (x - shift) - residual
    variance = average(ops.square(centred))
    return Moments(centred, shift + residual, variance, n)


def normalize(
    centred: Any,
    variance: Any,
    epsilon: float,
    gamma: Any = None,
    beta: Any = None,
    epsilon_placement: str = "inside",
) -> Any:
    """Scale centred values by their deviation, then by gamma, and add beta.

    ::

        inside:    y = gamma * centred / sqrt(variance + epsilon) + beta
        outside:   y = gamma * centred / (sqrt(variance) + epsilon) + beta

    Args:
        centred: x - mean.
        variance: broadcasts to `centred`.
        epsilon: added under the root ("inside") or to the root ("outside").
        gamma: gain that broadcasts to `centred`, or None for 1.
        beta: bias that broadcasts to `centred`, or None for 0.
        epsilon_placement: "inside" or "outside".
    """
    if epsilon_placement == "inside":
        scale = ops.rsqrt(variance + epsilon)
    else:
        # The root's slope at 0 is infinite; a constant row (padding) would get a NaN gradient.
        positive = variance > 0
        deviation = ops.where(positive, ops.sqrt(ops.where(positive, variance, 1.0)), 0.0)
        scale = 1.0 / (deviation + epsilon)
    if gamma is not None:
        scale = scale * ops.cast(gamma, scale.dtype)
    y = centred * scale
    if beta is not None:
        y = y + ops.cast(beta, y.dtype)
    return y


def _count(x: Any, axes: list[int], mask: Any) -> Any:
    """Number of positions reduced, with the reduced axes kept at size one."""
    counted = ops.cast(ops.ones([1] * len(x.shape)) if mask is None else mask, x.dtype)
    kept = ops.sum(counted, axes, keepdims=True)
    size = ops.shape(x)
    for axis in axes:
        if counted.shape[axis] == 1:
            kept = kept * ops.cast(size[axis], x.dtype)
    return kept
