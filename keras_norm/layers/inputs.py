"""Check the axes and the inputs of a normalization layer."""

from collections.abc import Sequence
from numbers import Integral
from typing import TypeGuard

import keras
from keras import ops
from numpy.lib.array_utils import normalize_axis_tuple

from keras_norm.typing import Tensor


def as_axis(axis: object) -> int | list[int]:
    """Convert an `axis` argument to an int or a list of ints.

    Raises:
        TypeError: `axis` is neither an int nor a list or tuple of ints.
    """
    axes = list(axis) if isinstance(axis, list | tuple) else [axis]
    numbers = [int(a) for a in axes if is_int(a)]
    if not axes or len(numbers) != len(axes):
        raise TypeError(f"axis must be an int or a list of ints. Received: axis={axis!r}.")
    return numbers if isinstance(axis, list | tuple) else numbers[0]


def is_int(value: object) -> TypeGuard[int]:
    """Return whether `value` is an integer of Python or NumPy, and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def canonical_axes(axis: int | Sequence[int], shape: Sequence[int | None]) -> list[int]:
    """Convert axes to sorted, non-negative axes in [0, rank).

    Args:
        axis: one axis or several; negative axes count from the end.
        shape: the input's shape, with None for a dynamic dimension.

    Raises:
        ValueError: an axis is out of range, or occurs twice.
    """
    try:
        return sorted(normalize_axis_tuple(axis, len(shape)))
    except ValueError as error:
        raise ValueError(
            f"axis does not fit the inputs: {error}. Received: axis={axis} for inputs of shape "
            f"{tuple(shape)}. Name each dimension once."
        ) from None


def feature_sizes(axis: int | Sequence[int], shape: Sequence[int | None]) -> tuple[int, ...]:
    """Return the sizes of the feature axes in an input shape.

    Raises:
        ValueError: a feature axis is dynamic, out of range, or occurs twice.
    """
    sizes = []
    for a in canonical_axes(axis, shape):
        size = shape[a]
        if size is None:
            raise ValueError(
                f"The size of axis {a} must be static when the layer is built. Received inputs of "
                f"shape {tuple(shape)}. Give the size in keras.Input, or choose another axis."
            )
        sizes.append(size)
    return tuple(sizes)


def require_floating(inputs: Tensor, layer: keras.layers.Layer) -> None:
    """Raise TypeError for integer and boolean inputs of a layer.

    Raises:
        TypeError: the dtype of `inputs` is not a floating dtype.
    """
    if not keras.backend.is_float_dtype(inputs.dtype):
        raise TypeError(
            f"{type(layer).__name__} '{layer.name}' needs floating-point inputs. Received dtype "
            f"{keras.backend.standardize_dtype(inputs.dtype)}. Cast the inputs first, for example "
            "with keras.ops.cast(inputs, 'float32')."
        )


def with_features(
    inputs: Tensor, axis: int | Sequence[int], sizes: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """Check the feature sizes of the inputs of a built layer, and make these sizes static.

    The rank of the inputs may differ from the rank that the layer was built with.

    Args:
        inputs: tensor to normalize.
        axis: the layer's `axis` argument.
        sizes: sizes of the feature axes that the layer was built with.

    Returns:
        The inputs with static feature sizes, and the feature axes in [0, rank).

    Raises:
        ValueError: an axis does not exist, or its size differs from `sizes`.
    """
    axes = canonical_axes(axis, inputs.shape)
    built = dict(zip(axes, sizes, strict=True))
    if any(inputs.shape[a] not in (size, None) for a, size in built.items()):
        raise ValueError(
            f"The layer was built for inputs of size {tuple(sizes)} along axis={axis}. Received "
            f"inputs of shape {tuple(inputs.shape)}. Give inputs of this size, or create a new "
            "layer."
        )
    if any(inputs.shape[a] is None for a in axes):
        shape = ops.shape(inputs)
        inputs = ops.reshape(inputs, [built.get(a, size) for a, size in enumerate(shape)])
    return inputs, axes
