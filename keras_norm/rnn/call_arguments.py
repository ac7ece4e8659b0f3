"""Check and convert the call arguments of a recurrent layer."""

from typing import NamedTuple

import keras
from keras import ops

from keras_norm.keras_internals import mask_of
from keras_norm.typing import Nest, Shape, Tensor, Tensors

MASK_SHAPE = (
    "The mask of a recurrent layer must have shape (batch, time), with True at unmasked timesteps. "
    "Received a mask of shape {flags} for sequences of shape {sequences}."
)
RESETS_SHAPE = (
    "resets must have shape (batch, time), or (1, time) for the whole batch, with True at the "
    "first timestep of each sequence. Received resets of shape {flags} for inputs of shape "
    "{sequences}."
)


class MaskWithResets(NamedTuple):
    """A tuple of the call arguments `mask` and `resets`; Keras passes this tuple as `mask`.

    Args:
        mask: the mask, or None.
        resets: bool (batch, time) or (1, time).
        states: the states after a reset; None for the states before the first timestep.
    """

    mask: Tensor | None
    resets: Tensor
    states: Tensors | None = None


def join_resets(sequences: Tensor, mask: Nest, resets: Tensor) -> MaskWithResets:
    """Combine the call arguments `mask` and `resets` into one `MaskWithResets`.

    Without a mask, use the mask that Keras attached to the sequences: Keras passes it only to calls
    with one tensor.
    """
    return MaskWithResets(mask_of(sequences) if mask is None else mask, resets)


def require_real(sequences: Tensor) -> None:
    """Raise an error for complex sequences, because a cast would drop their imaginary part.

    Raises:
        TypeError: the sequences are complex.
    """
    dtype = keras.backend.standardize_dtype(sequences.dtype)
    if dtype.startswith("complex"):
        raise TypeError(
            f"A recurrent layer needs real inputs. Received dtype {dtype}. Concatenate the real "
            "and the imaginary part along the feature axis."
        )


def require_state_shape(state: Tensor, sequences: Tensor, k: int, size: int) -> None:
    """Raise ValueError unless initial state k has the shape (batch, size) or (1, size)."""
    batch = sequences.shape[0]
    if len(state.shape) != 2 or not _fits_shape(state.shape, (batch, size)):
        raise ValueError(
            f"Initial state {k} must have the shape ({batch}, {size}), or (1, {size}) for all "
            f"sequences. Received shape {tuple(state.shape)} for {batch} sequences. Pass the "
            "states of get_initial_state in their order, with one row per sequence."
        )


def convert_mask(mask: Nest, sequences: Tensor) -> Tensor | None:
    """Convert the mask of a recurrent layer to bool (batch, time) or (1, time).

    A mask (1, time) applies to every sequence. A mask may have a third dimension of size 1.

    Raises:
        ValueError: the mask has another shape.
    """
    mask = mask[0] if isinstance(mask, list | tuple) else mask
    return None if mask is None else _convert_flags(mask, sequences, MASK_SHAPE)


def convert_resets(resets: Tensor, sequences: Tensor) -> Tensor:
    """Convert the resets of a recurrent layer to bool (batch, time) or (1, time).

    Raises:
        ValueError: the resets have another shape.
    """
    return _convert_flags(resets, sequences, RESETS_SHAPE)


def _convert_flags(flags: Tensor, sequences: Tensor, message: str) -> Tensor:
    flags = ops.convert_to_tensor(flags)
    if len(flags.shape) == 3 and flags.shape[2] in (1, None):
        flags = ops.reshape(flags, ops.shape(flags)[:2])
    if len(flags.shape) != 2 or not _fits_shape(flags.shape, sequences.shape[:2]):
        shapes = {"flags": tuple(flags.shape), "sequences": tuple(sequences.shape)}
        raise ValueError(message.format(**shapes))
    return ops.cast(flags, "bool")


def _fits_shape(shape: Shape, expected: Shape) -> bool:
    """Return whether a 2D shape equals the expected shape, or has one row, which broadcasts.

    A dynamic size, None, fits any size.
    """
    (rows, size), (batch, expected_size) = shape, expected
    same_size = None in (size, expected_size) or size == expected_size
    return same_size and (None in (rows, batch) or rows in (1, batch))


def broadcast_rows(x: Tensor, sizes: tuple[int | Tensor, ...]) -> Tensor:
    """Broadcast `x` to `sizes`; dynamic sizes are checked when the graph runs."""
    is_static = all(isinstance(size, int) for size in sizes)
    return x if is_static and tuple(x.shape) == tuple(sizes) else ops.broadcast_to(x, sizes)
