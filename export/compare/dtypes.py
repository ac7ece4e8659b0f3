"""Rules for the dtypes of arrays: kinds, conversions, and float32 in place of bfloat16."""

import numpy as np
import numpy.typing as npt

from keras_norm.typing import Array, Arrays, TensorLike


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return the dtype of the arrays for a tensor: float32 for bfloat16, which NumPy lacks.

    Args:
        name: name of the tensor's dtype.

    Raises:
        TypeError: NumPy has no dtype for the tensor, for example "string".
    """
    return np.dtype("float32" if name == "bfloat16" else name)


def to_numpy(tensor: TensorLike) -> Array:
    """Convert a tensor, a variable, an array or nested lists to an array; bfloat16 to float32."""
    array = np.asarray(tensor)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def to_float64(x: TensorLike) -> npt.NDArray[np.float64]:
    """Convert a tensor or an array of numbers to a float64 array."""
    return np.asarray(x).astype(np.float64)


def can_convert(array: Array, dtype: np.dtype[np.generic]) -> bool:
    """Return whether a dtype can represent every value of an array, up to rounding of floats.

    Integers convert to floats and to integers within the range of the dtype. Floats convert to
    floats only.
    """
    return np.can_cast(array.dtype, dtype, "same_kind") and in_range(array, dtype)


def in_range(array: Array, dtype: np.dtype[np.generic]) -> bool:
    """Return whether an integer dtype can hold every value of an array; True for other dtypes."""
    if dtype.kind not in "iu" or not array.size:
        return True
    limits = np.iinfo(dtype.name)
    return bool(limits.min <= array.min() and array.max() <= limits.max)


def kind_of(x: Array) -> str | None:
    """Return an array's kind, "float", "int" or "bool"; None for values without a difference."""
    if "float" in x.dtype.name:
        return "float"
    return {"i": "int", "u": "int", "b": "bool"}.get(x.dtype.kind)


def contains_nan(arrays: Arrays) -> bool:
    """Return whether any array contains NaN."""
    return any(bool(np.isnan(array).any()) for array in arrays.values())
