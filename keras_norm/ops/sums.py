"""Weighted sums over axes of a tensor."""

import math
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_norm.ops.kernels import computes_on_cpu


def total(x: Any, axes: Sequence[int], weights: Any = None) -> Any:
    """Sum of weights * x over `axes`, which are kept at size one.

    On TensorFlow a sum over leading axes, or a weighted one over trailing axes, is a product of a
    matrix with a vector: it is faster than the sum, and the products are written nowhere.

    Args:
        x: floating tensor.
        axes: axes to sum over, sorted, each in [0, rank).
        weights: of the rank of `x`, broadcasts to it; None for ones.
    """
    axes, rank, shape = list(axes), len(x.shape), ops.shape(x)
    if not axes:
        return x if weights is None else x * weights
    if len(axes) < rank and _vary_along(weights, axes, x) and computes_on_cpu():
        if axes == list(range(len(axes))):
            rows, columns = math.prod(shape[: len(axes)]), math.prod(shape[len(axes) :])
            if weights is None:
                weights = ops.ones((1, rows), x.dtype)
            weights = ops.reshape(weights, (1, rows))
            sums = ops.matmul(weights, ops.reshape(x, (rows, columns)))
            return ops.reshape(sums, (*[1] * len(axes), *shape[len(axes) :]))
        if weights is not None and axes == list(range(rank - len(axes), rank)):
            rows, columns = math.prod(shape[: -len(axes)]), math.prod(shape[-len(axes) :])
            sums = ops.matmul(ops.reshape(x, (rows, columns)), ops.reshape(weights, (columns, 1)))
            return ops.reshape(sums, (*shape[: -len(axes)], *[1] * len(axes)))
    return ops.sum(x if weights is None else x * weights, axes, keepdims=True)


def broadcast_axes(x: Any, like: Any) -> list[int]:
    """Axes along which `like`, of the same rank, is broadcast to `x`."""
    return [a for a, size in enumerate(like.shape) if size == 1 and x.shape[a] != 1]


def _vary_along(weights: Any, axes: list[int], x: Any) -> bool:
    """Whether the weights are the same along every axis but `axes`, and not along these."""
    return weights is None or all(
        size == (x.shape[a] if a in axes else 1) for a, size in enumerate(weights.shape)
    )
