"""Convert arrays of numbers and of texts, and compute differences of arrays element by element."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from keras_norm.export.input_names import TensorSpec
from keras_norm.typing import Array, Arrays, TensorLike
from keras_norm_verify.printable import printable


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return the NumPy dtype for a tensor's dtype: float32 for bfloat16, which NumPy lacks.

    Args:
        name: name of the tensor's dtype.

    Raises:
        TypeError: NumPy has no dtype for the tensor, for example "string".
    """
    return np.dtype("float32" if name == "bfloat16" else name)


def to_numpy(tensor: TensorLike) -> Array:
    """Convert a tensor, a variable or nested lists to a NumPy array; bfloat16 becomes float32."""
    array = np.asarray(tensor)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def is_text(array: Array) -> bool:
    """Return whether all elements of an array are texts: str or bytes."""
    if array.dtype.kind == "O":
        return all(isinstance(element, str | bytes) for element in array.flat)
    return array.dtype.kind in "SUT"  # NumPy's codes for bytes, str and StringDType


def to_bytes(texts: TensorLike) -> Array:
    r"""Convert texts to an array of UTF-8 bytes objects, the same form as from `tf.Tensor.numpy()`.

    The elements are objects, because an array of fixed width needs the memory of the longest text
    for every text.

    Args:
        texts: array or nested lists of str or bytes.

    Raises:
        ValueError: an element is not a text; or ends with a NUL character, which NumPy's arrays of
            fixed width cannot store; or has no code in UTF-8.

    Example:
        >>> to_bytes(["café", b"tea"]).tolist()
        [b'caf\xc3\xa9', b'tea']
    """
    array = np.asarray(texts, object)
    encoded = np.empty(array.shape, object)
    for index, element in np.ndenumerate(array):
        if not isinstance(element, str | bytes):
            raise ValueError(f"received {element!r}, which is not a text")
        text = element.encode() if isinstance(element, str) else element
        if text.endswith(b"\0"):
            raise ValueError(f"received {element!r}, which ends with a NUL character")
        encoded[index] = text
    return encoded


def to_float64(x: TensorLike) -> npt.NDArray[np.float64]:
    """Convert a tensor or an array of numbers to a float64 array."""
    return np.asarray(x).astype(np.float64)


def can_convert(array: Array, dtype: np.dtype[np.generic]) -> bool:
    """Return whether a dtype can represent every value of an array; floats may be rounded.

    Integers convert to floats and to integers within the range of the dtype. Floats convert to
    floats only.
    """
    if dtype.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype.name)
        if array.min() < limits.min or array.max() > limits.max:
            return False
    return np.can_cast(array.dtype, dtype, "same_kind")


def convert_input(data: TensorLike, spec: TensorSpec) -> Array:
    """Convert a user's data for one input of a model to an array of the input's dtype.

    The conversions are those of `can_convert`; texts become bytes in UTF-8.

    Raises:
        ValueError: NumPy cannot convert the data, or their shape or values do not fit the spec.
    """
    who, is_texts = f"Input '{printable(spec.name)}'", spec.dtype == "string"
    try:
        array = np.asarray(data, object if is_texts else None)
    except ValueError:  # NumPy rejects nested lists of different lengths, and symbolic tensors
        array = np.asarray(None)
    if array.dtype.kind == "O" and not (is_texts or isinstance(data, np.ndarray)):
        raise ValueError(
            f"{who} takes an array of numbers. Received a {type(data).__name__} that NumPy cannot "
            "convert. Give an array; pad sequences of different lengths first."
        )
    if array.ndim != len(spec.shape) or any(
        size not in (None, n) for size, n in zip(spec.shape, array.shape, strict=True)
    ):
        wanted = str(spec.shape).replace("None", "any")
        raise ValueError(f"{who} takes arrays of shape {wanted}. Received shape {array.shape}.")
    if is_texts:
        try:
            return to_bytes(array)
        except ValueError as error:
            raise ValueError(f"{who} takes texts: {error}.") from None
    dtype = numpy_dtype(spec.dtype)
    if not can_convert(array, dtype):
        raise ValueError(
            f"{who} takes {spec.dtype}. Received values of {array.dtype} that {spec.dtype} cannot "
            "represent."
        )
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype)


def kind_of(x: Array) -> str | None:
    """Return an array's kind, "float", "int", "bool" or "text"; None for other values."""
    if "float" in x.dtype.name:
        return "float"
    return "text" if is_text(x) else {"i": "int", "u": "int", "b": "bool"}.get(x.dtype.kind)


def where_nan(x: Array) -> Array:
    """Return a boolean array: True where a value is NaN. Only floats can be NaN."""
    return np.isnan(x) if kind_of(x) == "float" else np.zeros(x.shape, bool)


def where_finite(x: Array) -> Array:
    """Return a boolean array: True where a value is finite. Only floats can be infinite or NaN."""
    return np.isfinite(x) if kind_of(x) == "float" else np.ones(x.shape, bool)


def contains_nan(arrays: Arrays) -> bool:
    """Return whether any array contains NaN."""
    return any(bool(where_nan(array).any()) for array in arrays.values())


def axis_names(rank: int, source: str = "") -> tuple[str, ...]:
    """Name an output's axes: (sample), (sample, unit), (sample, timestep, unit), and so on.

    Args:
        rank: number of axes.
        source: name of the file in which samples are numbered, or "".
    """
    sample = f"{source}: sample" if source else "sample"
    if rank <= 1:
        return (sample,)[:rank]
    middle = ("timestep",) if rank == 3 else tuple(f"axis {k}" for k in range(1, rank - 1))
    return (sample, *middle, "unit")


def magnitude(x: Array) -> float:
    """Return the largest finite absolute value of an array; 0 if it has no finite number."""
    if kind_of(x) == "text":
        return 0.0
    size = np.abs(to_float64(x))
    return float(size[np.isfinite(size)].max(initial=0.0))


def largest(arrays: Iterable[TensorLike]) -> float:
    """Return the largest finite absolute value in several arrays, or 1 if that value is 0."""
    return max((magnitude(np.asarray(array)) for array in arrays), default=0.0) or 1.0


def incomparable(e: Array, a: Array) -> str | None:
    """Return why two arrays cannot be compared element by element, or None if they can."""
    if e.shape != a.shape:
        return f"wrong shape: expected {e.shape}, received {a.shape}"
    if kind_of(e) is None or kind_of(e) != kind_of(a):
        return f"wrong dtype: expected {e.dtype}, received {a.dtype}"
    if e.size == 0:
        return f"the output has the shape {e.shape}, so it has no values to compare"
    return None


def absolute_difference(e: Array, a: Array) -> Array:
    """Return |a - e| in float64, with 0 where both arrays hold equal infinities."""
    e, a = to_float64(e), to_float64(a)
    with np.errstate(invalid="ignore"):
        return np.where(e == a, 0.0, np.abs(a - e))


def both_nan(e: Array, a: Array) -> Array:
    """Return a boolean array: True where both arrays are NaN."""
    found: Array = np.isnan(to_float64(e)) & np.isnan(to_float64(a))
    return found


def without_common_nan(expected: Arrays, actual: Arrays) -> tuple[Arrays, Arrays]:
    """Return copies of the outputs: 0 replaces NaN wherever expected and actual are both NaN."""
    wanted, received = ({n: np.asarray(y) for n, y in x.items()} for x in (expected, actual))
    for name in wanted.keys() & received.keys():
        own, got = wanted[name], received[name]
        if got.shape == own.shape and kind_of(got) == kind_of(own) == "float":
            nan = both_nan(own, got)
            wanted[name], received[name] = (np.where(nan, np.zeros_like(y), y) for y in (own, got))
    return wanted, received
