"""Compare two arrays element by element, and name the kinds of their numbers and their axes."""

from collections.abc import Iterable

import numpy as np

from keras_norm.export.compare.dtypes import kind_of, to_float64
from keras_norm.typing import Array, Arrays, TensorLike


def axis_names(rank: int, source: str = "") -> tuple[str, ...]:
    """Name an output's axes: (sample), (sample, unit), (sample, timestep, unit), and so on.

    Args:
        rank: number of axes.
        source: origin of the sample numbers, such as a file's name.
    """
    sample = f"{source}: sample" if source else "sample"
    if rank <= 1:
        return (sample,)[:rank]
    middle = ("timestep",) if rank == 3 else tuple(f"axis {k}" for k in range(1, rank - 1))
    return (sample, *middle, "unit")


def magnitude(x: Array) -> float:
    """Return the largest finite absolute value of an array; 0 if it has no finite value."""
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
        return f"empty output of shape {e.shape}: nothing to compare"
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
    """Replace NaN by 0 where both the expected and the actual output are NaN.

    Returns:
        The expected outputs and the actual outputs, without unexpected outputs.
    """
    wanted = {n: np.asarray(y) for n, y in expected.items()}
    received = {n: np.asarray(y) for n, y in actual.items() if n in expected}
    for name, got in received.items():
        own = wanted[name]
        if got.shape == own.shape and kind_of(got) == kind_of(own) == "float":
            nan = both_nan(own, got)
            wanted[name], received[name] = (np.where(nan, np.zeros_like(y), y) for y in (own, got))
    return wanted, received
