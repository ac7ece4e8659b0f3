"""Bring a mask to the rank of what it masks."""

import operator
from typing import Any

from keras import ops


def align_mask(mask: Any, x: Any, axis: int) -> Any:
    """Expand a mask so that it broadcasts to `x`, whose features stand at `axis`.

    A mask covers positions, so that its dimensions are those of `x` without the feature axis:
    (batch, time) for (batch, time, features), for (batch, time, height, width, channels), and with
    axis 1 for (batch, channels, time). Where the shapes rule that out, they are the leading
    dimensions of `x`, as Keras passes masks on: with axis 1, (batch, time) for (batch, time,
    features). A dimension of size 1 stands for every position.

    Args:
        mask: bool tensor of rank 2, or of one rank less than `x`.
        x: tensor to mask.
        axis: the feature axis, in [0, rank).

    Returns:
        A bool tensor of the rank of `x`.

    Raises:
        ValueError: the mask has another rank, or fits `x` in neither way.
    """
    rank, shape = len(x.shape), tuple(x.shape)
    if len(mask.shape) not in {min(2, rank - 1), rank - 1}:
        raise ValueError(
            f"A mask for inputs of rank {rank} has rank {rank - 1}, or 2 for (batch, time). "
            f"Received a mask of shape {tuple(mask.shape)} for inputs of shape {shape}."
        )
    leading = list(range(len(mask.shape)))
    without_axis = [d for d in range(rank) if d != axis][: len(mask.shape)]
    # Known sizes decide before unknown ones, which may be anything, and these before ones.
    for fits in (operator.eq, _may_equal, _may_broadcast):
        for dims in (without_axis, leading):
            if all(fits(mask.shape[i], shape[d]) for i, d in enumerate(dims)):
                missing = [d for d in range(rank) if d not in dims]
                return ops.cast(ops.expand_dims(mask, missing), "bool")
    raise ValueError(
        f"The mask's shape {tuple(mask.shape)} fits neither the inputs, of shape {shape}, without "
        f"axis {axis}, nor their leading dimensions."
    )


def _may_equal(a: int | None, b: int | None) -> bool:
    return a is None or b is None or a == b


def _may_broadcast(a: int | None, b: int | None) -> bool:
    return a == 1 or _may_equal(a, b)
