"""Expand a mask so that it broadcasts to a tensor."""

import operator

from keras import ops

from keras_norm.typing import Tensor


def align_mask(mask: Tensor, x: Tensor, axis: int) -> Tensor:
    """Expand a mask so that it broadcasts to `x`.

    A mask has the dimensions of `x` without the feature axis. A mask (batch, time) fits
    (batch, time, features), (batch, time, height, width, channels) and, with axis 1,
    (batch, channels, time). If the shapes do not match in this way, the mask has the leading
    dimensions of `x`, as in Keras: with axis 1, (batch, time) fits (batch, time, features). A
    dimension of size 1 broadcasts.

    Args:
        mask: bool tensor of rank 2, or of one rank less than `x`.
        x: tensor to mask.
        axis: the feature axis, in [0, rank).

    Returns:
        A bool tensor of the rank of `x`.

    Raises:
        ValueError: the mask has another rank, or its shape does not fit `x`.
    """
    rank, shape = len(x.shape), tuple(x.shape)
    if len(mask.shape) not in {min(2, rank - 1), rank - 1}:
        raise ValueError(
            f"A mask for inputs of rank {rank} must have rank {rank - 1}, or rank 2 for (batch, "
            f"time). Received a mask of shape {tuple(mask.shape)} for inputs of shape {shape}."
        )
    leading = list(range(len(mask.shape)))
    without_axis = [d for d in range(rank) if d != axis][: len(mask.shape)]
    # A mask has the dimensions of x without the feature axis, or the first dimensions of x. Compare
    # the mask with both until it fits. The first time, all sizes must be equal. The second time, a
    # dynamic size fits any size. The third time, a size of 1 in the mask fits any size too.
    for fits in (operator.eq, _may_equal, _may_broadcast):
        for dims in (without_axis, leading):
            if all(fits(mask.shape[i], shape[d]) for i, d in enumerate(dims)):
                missing = [d for d in range(rank) if d not in dims]
                return ops.cast(ops.expand_dims(mask, missing), "bool")
    raise ValueError(
        f"The mask does not fit the inputs. Received a mask of shape {tuple(mask.shape)} for "
        f"inputs of shape {shape}. Give a mask with the dimensions of the inputs without axis "
        f"{axis}, or with the first dimensions of the inputs."
    )


def _may_equal(a: int | None, b: int | None) -> bool:
    return a is None or b is None or a == b


def _may_broadcast(a: int | None, b: int | None) -> bool:
    return a == 1 or _may_equal(a, b)
