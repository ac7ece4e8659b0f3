"""Measure the differences between named arrays, and judge them by a tolerance."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_norm.export.compare import difference_profile
from keras_norm.export.compare.element_differences import (
    absolute_difference,
    axis_names,
    incomparable,
    kind_of,
    magnitude,
    wide,
)
from keras_norm.export.results.output_comparison import Element, Measurement, OutputComparison


def measure(
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    rtol: float,
    rows: Sequence[int] | None = None,
    source: str = "",
) -> tuple[Measurement, ...]:
    """Measure the differences between expected and actual outputs.

    A missing output, an extra output, another shape or another kind of dtype (float against int)
    fails with any tolerance. The result's `problem` then names the reason.

    Args:
        expected: arrays by output name.
        actual: arrays by output name.
        rtol: relative tolerance, 0 or more.
        rows: sample number of each row; None to count from 0.
        source: origin of the sample numbers, such as a file's name.

    Returns:
        One result for every expected output, in that order, then one for every extra output.
    """
    results = []
    for name, value in expected.items():
        if name not in actual:
            found = ", ".join(actual) or "none at all"
            results.append(Measurement(name, rtol, f"missing output; the outputs are: {found}"))
            continue
        e, a = np.asarray(value), np.asarray(actual[name])
        problem = incomparable(e, a)
        results.append(
            Measurement(name, rtol, problem)
            if problem
            else _measure_values(name, e, a, rtol, rows, source)
        )
    extra = "extra output, which the model does not have"
    return (*results, *(Measurement(n, rtol, extra) for n in actual if n not in expected))


def judge(found: Measurement, atol: float) -> OutputComparison:
    """Judge whether |actual - expected| <= atol + rtol |expected| for every measured element.

    Equal infinities pass. A NaN in either array fails. Integers and booleans must be equal.

    Args:
        found: a result of `measure`.
        atol: absolute tolerance, 0 or more.

    Example:
    >>> (found,) = measure({"y": np.zeros((2, 3))}, {"y": np.full((2, 3), 0.5)}, rtol=0.0)
    >>> result = judge(found, atol=0.1)
    >>> result.passed, result.atol_needed, result.where
    (False, 0.5, (('sample', 0), ('unit', 0)))
    """
    rtol, atol = (0.0, 0.0) if found.exact else (found.rtol, atol)
    problem = found.problem or _not_finite(found)
    if found.worst is None or found.widest is None:
        return OutputComparison(found.output, False, problem, rtol, atol)
    needed = max(found.worst.excess(rtol), 0.0)
    return OutputComparison(
        output=found.output,
        passed=bool(problem is None and needed <= atol),
        problem=problem,
        rtol=rtol,
        atol=atol,
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        atol_needed=None if found.exact and needed else needed,
        used=max(element.used(rtol, atol) for element in (found.worst, found.widest)),
        where=found.worst.where,
        expected=found.worst.expected,
        actual=found.worst.actual,
    )


def _measure_values(
    name: str, e: np.ndarray, a: np.ndarray, rtol: float, rows: Sequence[int] | None, source: str
) -> Measurement:
    exact = kind_of(e) != "float"
    spread = difference_profile.profile(e, a)
    e, a = wide(e), wide(a)
    difference = absolute_difference(e, a)
    size = np.abs(e)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(difference == 0, 0.0, difference - (0.0 if exact else rtol) * size)
        relative = np.where((difference == 0) | (e == 0), 0.0, difference / size)
    names = axis_names(e.ndim, source)

    def element(rank: np.ndarray) -> Element:
        # NaN ranks above every number, so that the reported element is a NaN if there is one.
        index = np.unravel_index(int(np.argmax(np.where(np.isnan(rank), np.inf, rank))), e.shape)
        places = [int(k) for k in index]
        if rows is not None and places and len(rows) == len(e):
            places[0] = rows[places[0]]
        return Element(tuple(zip(names, places, strict=False)), float(e[index]), float(a[index]))

    one_sided = (e != a) & ~(np.isfinite(e) & np.isfinite(a)) & ~np.isnan(e) & ~np.isnan(a)
    return Measurement(
        output=name,
        rtol=rtol,
        exact=exact,
        count=e.size,
        scale=magnitude(e),
        max_abs=float(difference.max()),
        max_rel=float(relative.max()),
        worst=element(excess),
        widest=element(difference),
        nan_expected=int(np.isnan(e).sum()),
        nan_actual=int(np.isnan(a).sum()),
        infinite=int(one_sided.sum()),
        squared=float((difference != 0 if exact else np.square(difference)).sum()),
        profile=spread,
    )


def _not_finite(found: Measurement) -> str | None:
    if found.nan_expected:
        return f"NaN in {found.nan_expected} of {found.count} expected values"
    if found.nan_actual:
        return f"NaN in {found.nan_actual} of {found.count} values"
    if found.infinite:
        return f"infinity on one side only in {found.infinite} of {found.count} values"
    return None
