"""Compare named arrays with named arrays: pure NumPy, one frozen result for every output."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_norm.export.results import OutputComparison

# Tolerances by precision, coarsest first: some units in the last place of the type, for the sums
# that a recurrence gathers. Of each value (rtol), and of an output's largest value (atol). "int8"
# is a TFLite file whose weights are quantized to it.
TOLERANCES = {
    "int8": 5e-2,
    "bfloat16": 5e-2,
    "float16": 1e-2,
    "float32": 1e-5,
    "float64": 1e-9,
}


def axis_names(rank: int) -> tuple[str, ...]:
    """Names of an output's axes: (sample), (sample, unit), (sample, timestep, unit), and so on."""
    if rank <= 1:
        return ("sample",)[:rank]
    middle = ("timestep",) if rank == 3 else tuple(f"axis {k}" for k in range(1, rank - 1))
    return ("sample", *middle, "unit")


def coarsest(precisions: Iterable[str]) -> str:
    """The precision in `TOLERANCES` that limits values which pass through all of these.

    Args:
        precisions: dtype names, or "int8" for quantized weights; others are ignored.
    """
    present = set(precisions)
    return next((name for name in TOLERANCES if name in present), "float64")


def compare(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    rtol: float,
    atol: float | Mapping[str, float],
) -> tuple[OutputComparison, ...]:
    """Compare each expected output with the actual one of the same name.

    An element passes when |actual - expected| <= atol + rtol |expected|; equal infinities pass, a
    NaN on either side fails, integers and booleans must be equal. A missing output, one too many,
    another shape and another kind of dtype (float against int) each fail, and say so in `problem`.

    Args:
        expected: arrays by output name.
        actual: arrays by output name.
        rtol: relative tolerance, 0 or more.
        atol: absolute tolerance, 0 or more; or one for every expected output by name.

    Returns:
        One result for every expected output, in that order, then one for every extra output.

    Example:
    >>> (result,) = compare({"y": np.zeros((2, 3))}, {"y": np.full((2, 3), 0.5)}, 0.0, 0.1)
    >>> result.passed, result.atol_needed, result.where
    (False, 0.5, (('sample', 0), ('unit', 0)))
    """

    def allowed(name: str) -> float:
        return atol.get(name, 0.0) if isinstance(atol, Mapping) else atol

    def failed(name: str, problem: str) -> OutputComparison:
        return OutputComparison(name, False, problem, rtol, allowed(name))

    results = []
    for name, value in expected.items():
        if name not in actual:
            found = ", ".join(actual) or "none at all"
            results.append(failed(name, f"missing output; the outputs are: {found}"))
            continue
        e, a = np.asarray(value), np.asarray(actual[name])
        problem = incomparable(e, a)
        results.append(
            failed(name, problem) if problem else _compare_values(name, e, a, rtol, allowed(name))
        )
    extra = [name for name in actual if name not in expected]
    return (
        *results,
        *(failed(name, "extra output, which the model does not have") for name in extra),
    )


def largest(arrays: Iterable[Any]) -> float:
    """The largest finite absolute value in some arrays, or 1 where they are all 0."""
    found = 0.0
    for array in arrays:
        magnitude = np.abs(_wide(np.asarray(array)))
        found = max(found, float(magnitude[np.isfinite(magnitude)].max(initial=0.0)))
    return found or 1.0


def incomparable(e: np.ndarray, a: np.ndarray) -> str | None:
    """Why two arrays cannot be compared element by element, or None where they can."""
    if e.shape != a.shape:
        return f"wrong shape: expected {e.shape}, received {a.shape}"
    if _kind(e) is None or _kind(e) != _kind(a):
        return f"wrong dtype: expected {e.dtype}, received {a.dtype}"
    if e.size == 0:
        return f"empty output of shape {e.shape}: nothing to compare"
    return None


def absolute_difference(e: np.ndarray, a: np.ndarray) -> np.ndarray:
    """|a - e| in float64; 0 where both are the same infinity."""
    e, a = _wide(e), _wide(a)
    with np.errstate(invalid="ignore"):
        return np.where(e == a, 0.0, np.abs(a - e))


def _compare_values(
    name: str, e: np.ndarray, a: np.ndarray, rtol: float, atol: float
) -> OutputComparison:
    exact = _kind(e) != "float"
    e, a = _wide(e), _wide(a)
    difference = absolute_difference(e, a)
    if exact:
        rtol = atol = 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(difference == 0, 0.0, difference - rtol * np.abs(e))
        relative = np.where((difference == 0) | (e == 0), 0.0, difference / np.abs(e))
        used = np.where(difference == 0, 0.0, difference / (atol + rtol * np.abs(e)))
    # NaN sorts above everything, so that the element shown is the one that matters.
    rank = np.where(np.isnan(excess), np.inf, excess)
    index = np.unravel_index(int(np.argmax(rank)), e.shape)
    needed = max(float(rank[index]), 0.0)
    problem = _not_finite(e, a)
    return OutputComparison(
        output=name,
        passed=bool(problem is None and needed <= atol),
        problem=problem,
        rtol=rtol,
        atol=atol,
        max_abs=float(difference.max()),
        max_rel=float(relative.max()),
        atol_needed=needed,
        used=float(np.nan_to_num(used, nan=np.inf, posinf=np.inf).max()),
        where=tuple(zip(axis_names(e.ndim), map(int, index), strict=True)),
        expected=float(e[index]),
        actual=float(a[index]),
    )


def _not_finite(e: np.ndarray, a: np.ndarray) -> str | None:
    if np.isnan(e).any():
        return f"NaN in {int(np.isnan(e).sum())} of {e.size} expected values"
    if np.isnan(a).any():
        return f"NaN in {int(np.isnan(a).sum())} of {a.size} values"
    unequal = (e != a) & ~(np.isfinite(e) & np.isfinite(a))
    if unequal.any():
        return f"infinity on one side only in {int(unequal.sum())} of {a.size} values"
    return None


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def _kind(x: np.ndarray) -> str | None:
    """The kind of number, float, int or bool; None for what has no difference."""
    if "float" in x.dtype.name:
        return "float"
    return {"i": "int", "u": "int", "b": "bool"}.get(x.dtype.kind)
