"""Compare two arrays element by element, and name the kinds of their numbers and their axes."""

from collections.abc import Iterable
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


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


def magnitude(x: np.ndarray) -> float:
    """Return the largest finite absolute value of an array; 0 if it has no finite value."""
    size = np.abs(wide(x))
    return float(size[np.isfinite(size)].max(initial=0.0))


def largest(arrays: Iterable[Any]) -> float:
    """Return the largest finite absolute value in several arrays, or 1 if that value is 0."""
    return max((magnitude(np.asarray(array)) for array in arrays), default=0.0) or 1.0


def incomparable(e: np.ndarray, a: np.ndarray) -> str | None:
    """Return why two arrays cannot be compared element by element, or None if they can."""
    if e.shape != a.shape:
        return f"wrong shape: expected {e.shape}, received {a.shape}"
    if kind_of(e) is None or kind_of(e) != kind_of(a):
        return f"wrong dtype: expected {e.dtype}, received {a.dtype}"
    if e.size == 0:
        return f"empty output of shape {e.shape}: nothing to compare"
    return None


def absolute_difference(e: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return |a - e| in float64, with 0 where both arrays hold equal infinities."""
    e, a = wide(e), wide(a)
    with np.errstate(invalid="ignore"):
        return np.where(e == a, 0.0, np.abs(a - e))


def both_nan(e: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return a boolean array: True where both arrays are NaN."""
    found: np.ndarray = np.isnan(wide(e)) & np.isnan(wide(a))
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


def hold_nan(arrays: Arrays) -> bool:
    """Return whether any array holds NaN."""
    return any(np.isnan(array).any() for array in arrays.values())


def wide(x: np.ndarray) -> np.ndarray:
    """Convert an array to float64."""
    return x.astype(np.float64)


def kind_of(x: np.ndarray) -> str | None:
    """Return an array's kind, "float", "int" or "bool"; None for values without a difference."""
    if "float" in x.dtype.name:
        return "float"
    return {"i": "int", "u": "int", "b": "bool"}.get(x.dtype.kind)


def in_range(array: np.ndarray, dtype: np.dtype) -> bool:
    """Return whether an integer dtype can hold every value of an array; True for other dtypes."""
    if dtype.kind not in "iu" or not array.size:
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= array.min() and array.max() <= limits.max)
