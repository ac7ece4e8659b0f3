"""Clip the cell state of an LSTM."""

from keras import ops

from keras_norm.rnn.core.recurrence import CellWeights
from keras_norm.typing import Tensor

CELL_CLIP = "cell_clip"


def clip_state(c: Tensor, options: CellWeights) -> Tensor:
    """Return min(max(c, -bound), bound); without a bound, c."""
    bound = options.get(CELL_CLIP)
    return c if bound is None else ops.clip(c, -bound, bound)


def clip_gradient(c: Tensor, dc: Tensor, options: CellWeights) -> Tensor:
    """Return the gradient of the cell state before it was clipped: zero where it was.

    Args:
        c: the clipped cell state.
        dc: gradient of `c`.
        options: options of the cell.
    """
    bound = options.get(CELL_CLIP)
    return dc if bound is None else ops.where(ops.abs(c) < bound, dc, 0.0)
