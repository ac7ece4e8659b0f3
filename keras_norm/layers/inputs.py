"""Refuse what a normalization cannot normalize, saying what was received and what to do."""

from collections.abc import Sequence
from typing import Any

import keras


def require_axis(axis: Any) -> None:
    """Refuse what is no axis and no list of axes.

    Raises:
        TypeError: `axis` is neither an int nor a list or tuple of ints.
    """
    axes = axis if isinstance(axis, list | tuple) else [axis]
    if not axes or not all(isinstance(a, int) for a in axes):
        raise TypeError(f"axis must be an int or a list of ints. Received: axis={axis!r}.")


def is_positive_int(value: Any) -> bool:
    """Whether `value` is an int from 1 on."""
    return isinstance(value, int) and value >= 1


def canonical_axes(axis: int | Sequence[int], shape: Sequence[int | None]) -> list[int]:
    """Axes as sorted numbers in [0, rank), each of a known size.

    Args:
        axis: an axis or several; negative ones count from the end.
        shape: the input's shape, None where a size is unknown.

    Raises:
        ValueError: an axis is out of range, is named twice, or has an unknown size.
    """
    rank = len(shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    for a in axes:
        if not -rank <= a < rank:
            raise ValueError(
                f"axis must be within [{-rank}, {rank - 1}] for inputs of shape {tuple(shape)}. "
                f"Received: axis={axis}."
            )
    canonical = sorted(a % rank for a in axes)
    if len(set(canonical)) != len(canonical):
        raise ValueError(
            f"axis names a dimension twice for inputs of shape {tuple(shape)}. "
            f"Received: axis={axis}. Name each dimension once."
        )
    for a in canonical:
        if shape[a] is None:
            raise ValueError(
                f"The size of axis {a} must be known when the layer is built. Received inputs of "
                f"shape {tuple(shape)}. Give that size in keras.Input, or choose another axis."
            )
    return canonical


def require_floating(inputs: Any, layer: Any) -> None:
    """Refuse integer and boolean inputs.

    Raises:
        TypeError: the dtype of `inputs` is no floating one.
    """
    if not keras.backend.is_float_dtype(inputs.dtype):
        raise TypeError(
            f"{type(layer).__name__} '{layer.name}' normalizes floating-point inputs. Received "
            f"dtype {keras.backend.standardize_dtype(inputs.dtype)}: cast them first, for example "
            "with keras.ops.cast(inputs, 'float32')."
        )
