"""Bring a mask to the rank of what it masks."""

from typing import Any

from keras import ops


def align_mask(mask: Any, x: Any, axis: int) -> Any:
    """Expand a mask so that it broadcasts to `x`, whose features stand at `axis`.

    A mask's dimensions are the leading dimensions of `x`, as Keras passes them on: (batch, time)
    for (batch, time, features) as for (batch, time, height, width, channels). Where the shapes
    rule that out, they are the dimensions of `x` without `axis`: (batch, time) for (batch,
    channels, time) with axis 1.

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
    for dims in (leading, without_axis):
        if all(_may_equal(mask.shape[i], shape[d]) for i, d in enumerate(dims)):
            missing = [d for d in range(rank) if d not in dims]
            return ops.cast(ops.expand_dims(mask, missing), "bool")
    raise ValueError(
        f"The mask's shape {tuple(mask.shape)} fits neither the leading dimensions of the inputs, "
        f"of shape {shape}, nor their dimensions without axis {axis}."
    )


def _may_equal(a: int | None, b: int | None) -> bool:
    return a is None or b is None or a == b
