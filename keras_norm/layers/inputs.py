"""What a normalization takes, and errors that say what was received and what to do."""

import numbers
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops
from numpy.lib.array_utils import normalize_axis_tuple


def as_axis(axis: Any) -> int | list[int]:
    """An axis as an int, or several as a list of ints.

    Raises:
        TypeError: `axis` is neither an int nor a list or tuple of ints.
    """
    axes = list(axis) if isinstance(axis, list | tuple) else [axis]
    if not axes or not all(is_int(a) for a in axes):
        raise TypeError(f"axis must be an int or a list of ints. Received: axis={axis!r}.")
    axes = [int(a) for a in axes]
    return axes if isinstance(axis, list | tuple) else axes[0]


def is_int(value: Any) -> bool:
    """Whether `value` is a whole number, Python's or NumPy's, and no bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def canonical_axes(axis: int | Sequence[int], shape: Sequence[int | None]) -> list[int]:
    """Axes as sorted numbers in [0, rank).

    Args:
        axis: an axis or several; negative ones count from the end.
        shape: the input's shape, None where a size is unknown.

    Raises:
        ValueError: an axis is out of range, or is named twice.
    """
    try:
        return sorted(normalize_axis_tuple(axis, len(shape)))
    except ValueError as error:
        raise ValueError(
            f"axis names dimensions of the inputs, each once: {error}. "
            f"Received: axis={axis} for inputs of shape {tuple(shape)}."
        ) from None


def feature_sizes(axis: int | Sequence[int], shape: Sequence[Any]) -> tuple[int, ...]:
    """The sizes of the axes that a layer is built for.

    Raises:
        ValueError: one is unknown; or as `canonical_axes`.
    """
    axes = canonical_axes(axis, shape)
    for a in axes:
        if shape[a] is None:
            raise ValueError(
                f"The size of axis {a} must be known when the layer is built. Received inputs of "
                f"shape {tuple(shape)}. Give that size in keras.Input, or choose another axis."
            )
    return tuple(shape[a] for a in axes)


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


def with_features(
    inputs: Any, axis: int | Sequence[int], sizes: Sequence[int]
) -> tuple[Any, list[int]]:
    """The inputs of a built layer, whose rank may differ from build's, and the axes of features.

    Args:
        inputs: tensor to normalize.
        axis: as given to the layer.
        sizes: of the axes that the layer was built for; they stand where a graph knows none.

    Raises:
        ValueError: an axis does not exist, or has another size.
    """
    axes = canonical_axes(axis, inputs.shape)
    built = dict(zip(axes, sizes, strict=True))
    if any(inputs.shape[a] not in (size, None) for a, size in built.items()):
        raise ValueError(
            f"The layer was built for {tuple(sizes)} features along axis={axis}. "
            f"Received inputs of shape {tuple(inputs.shape)}."
        )
    if any(inputs.shape[a] is None for a in axes):
        shape = ops.shape(inputs)
        inputs = ops.reshape(inputs, [built.get(a, size) for a, size in enumerate(shape)])
    return inputs, axes
