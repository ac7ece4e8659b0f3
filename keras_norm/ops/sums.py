"""Sum a tensor over axes, with or without weights."""

import math
from collections.abc import Sequence

from keras import ops

from keras_norm.keras_internals import computes_on_cpu
from keras_norm.typing import Tensor


def total(x: Tensor, axes: Sequence[int], weights: Tensor | None = None) -> Tensor:
    """Sum weights * x over `axes`; the reduced axes have size 1.

    On TensorFlow two sums are computed as the product of a matrix and a vector: the sum over
    leading axes, and the weighted sum over trailing axes. The product is faster than
    `keras.ops.sum` and does not store weights * x.

    Args:
        x: floating tensor.
        axes: axes to sum over, sorted, each in [0, rank).
        weights: tensor that broadcasts to `x`, with equal rank; None for ones.
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


def broadcast_axes(x: Tensor, like: Tensor) -> list[int]:
    """List the axes with size 1 in `like` and another size in `x`; both have the same rank."""
    return [a for a, size in enumerate(like.shape) if size == 1 and x.shape[a] != 1]


def _vary_along(weights: Tensor | None, axes: list[int], x: Tensor) -> bool:
    """Return whether `weights` is None, or has x's sizes along `axes` and size 1 along others."""
    return weights is None or all(
        size == (x.shape[a] if a in axes else 1) for a, size in enumerate(weights.shape)
    )
