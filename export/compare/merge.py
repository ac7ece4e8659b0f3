"""Merge the results of parts of the data, independently of the parts' order."""

import collections
import dataclasses
import functools
import heapq
import operator
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import numpy as np

from keras_norm.export.compare.output_differences import merge_profiles
from keras_norm.export.results.artifact_result import Tally
from keras_norm.export.results.measurements import (
    ArtifactMeasurements,
    BatchStatistics,
    DataMeasurements,
    GapMeasurements,
    ModeDifference,
    Spread,
)
from keras_norm.export.results.output_comparison import Element, Measurement, largest_known
from keras_norm.export.results.version_comparison import (
    MAX_LISTED,
    ChangedPrediction,
    ClassChange,
    OutputChange,
)
from keras_norm.ops.merge_moments import merge_moments
from keras_norm.typing import Json

# The value of one field of a result.
Value: TypeAlias = Json
# Pairs of an output's name and its largest absolute value.
Scales: TypeAlias = tuple[tuple[str, float], ...]
# Pairs of an output's name and the hashes of one or two rows.
RowHashes: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
# Classes of results that are merged field by field.
Result = TypeVar(
    "Result",
    bound=DataMeasurements
    | GapMeasurements
    | ArtifactMeasurements
    | Measurement
    | ModeDifference
    | BatchStatistics
    | Spread
    | Tally
    | OutputChange,
)


def merge(parts: Iterable[DataMeasurements]) -> DataMeasurements:
    """Merge the results of several parts of the data into the result of all data.

    Merging is associative and commutative. Counts add up. The larger of two largest differences
    is kept; if they are equal, the difference at the earlier sample is kept. Sums of floats depend
    on the order in the last digits of float64, so they are reported in float32.

    Args:
        parts: results of one model and its artifacts.

    Raises:
        ValueError: the parts have different relative tolerances.
    """
    return functools.reduce(merge_results, parts, DataMeasurements())


def merge_results(one: Result, other: Result) -> Result:
    """Merge the results of two parts of the data, field by field, by `RULES`.

    Both results have one class. A field without a rule has equal values in both results.

    Args:
        one: a `DataMeasurements`, a result inside a `DataMeasurements`, or an `OutputChange`.
        other: a result of the class of `one`, for the same output, artifact or layer.

    Raises:
        ValueError: measurements have different names or relative tolerances.
    """
    if isinstance(one, BatchStatistics) and isinstance(other, BatchStatistics):
        positions, mean, variance = merge_moments(
            (one.positions, one.mean, one.variance), (other.positions, other.mean, other.variance)
        )
        return dataclasses.replace(one, positions=positions, mean=mean, variance=variance)
    values: dict[str, Value] = {}
    if isinstance(one, Measurement) and isinstance(other, Measurement):
        values |= _worst_elements(one, other)
    names = {field.name for field in dataclasses.fields(one)} & set(RULES) - set(values)
    values |= {name: RULES[name](getattr(one, name), getattr(other, name)) for name in names}
    return dataclasses.replace(one, **values)


def _worst_elements(one: Measurement, other: Measurement) -> dict[str, Element | None]:
    """Merge the fields `worst` and `widest` of two measurements of one output."""
    if (one.output, one.rtol) != (other.output, other.rtol):
        raise ValueError(
            "All parts of a check must have equal outputs and one rtol. "
            f"Received: {one.output!r}, {one.rtol} and {other.output!r}, {other.rtol}."
        )
    rtol = 0.0 if one.exact or other.exact else one.rtol
    return {
        "worst": _select_worst((one.worst, other.worst), rtol),
        "widest": _select_worst((one.widest, other.widest), 0.0),
    }


def _select_worst(elements: Iterable[Element | None], rtol: float) -> Element | None:
    """Return the element that needs the largest atol, or the first of several such elements."""
    known = (element for element in elements if element is not None)
    return min(known, key=lambda x: (-x.excess(rtol), x.where), default=None)


def _join(one: tuple[Result, ...], other: tuple[Result, ...]) -> tuple[Result, ...]:
    """Merge two lists of results by output, artifact or layer."""
    found: dict[tuple[object, ...], Result] = {}
    for item in (*one, *other):
        # Results whose sums have different shapes are not merged.
        names = [getattr(item, name, None) for name in ("output", "name", "rows", "index")]
        key = (*names, np.shape(getattr(item, "total", 0)))
        found[key] = merge_results(found[key], item) if key in found else item
    return tuple(found.values())


def _largest_scales(one: Scales, other: Scales) -> Scales:
    """Return the largest absolute value of each output in two parts of the data."""
    found = dict(one)
    return tuple((found | {n: max(x, found.get(n, x)) for n, x in other}).items())


def _merge_row_hashes(one: RowHashes, other: RowHashes) -> RowHashes:
    """Return the two lowest row hashes of each output, so that the order of parts is irrelevant."""
    found = dict(one)
    joined = {n: tuple(sorted({*found.get(n, ()), *rows})[:2]) for n, rows in other}
    return tuple((found | joined).items())


def _first_text(one: str | None, other: str | None) -> str | None:
    """Return the alphabetically first error message, so that the order of parts is irrelevant."""
    return min(filter(None, (one, other)), default=None)


def _class_changes(
    one: tuple[ClassChange, ...], other: tuple[ClassChange, ...]
) -> tuple[ClassChange, ...]:
    """Add the counts of changes for each pair of classes, the most frequent pair first."""
    found: collections.Counter[tuple[float, float]] = collections.Counter()
    for change in (*one, *other):
        found[change.before, change.after] += change.count
    return tuple(
        ClassChange(*key, n) for key, n in sorted(found.items(), key=lambda x: (-x[1], x[0]))
    )


def _largest_changes(
    one: tuple[ChangedPrediction, ...], other: tuple[ChangedPrediction, ...]
) -> tuple[ChangedPrediction, ...]:
    """Return the `MAX_LISTED` predictions that changed most in two parts of the data."""
    return tuple(heapq.nsmallest(MAX_LISTED, (*one, *other), lambda c: (-c.size, c.where)))


SUMS = ["samples", "count", "total", "squares", "squared", "signed"]
SUMS += ["nan_expected", "nan_actual", "infinite"]
SUMS += ["predictions", "changed", "fixed", "broken", "values", "lost"]
LISTS = ("spreads", "tallies", "artifacts", "outputs", "layers", "inference", "training")
# Field name -> function that merges the field's two values.
RULES: dict[str, Callable[[Value, Value], Value]] = {
    **dict.fromkeys(SUMS, operator.add),
    **dict.fromkeys(LISTS, _join),
    **dict.fromkeys(("timesteps", "scale", "exact", "largest"), max),
    **dict.fromkeys(("max_abs", "max_rel", "worst"), lambda *two: largest_known(two)),
    **dict.fromkeys(("error", "problem"), _first_text),
    **dict.fromkeys(("before", "after"), lambda *two: merge_results(*two) if all(two) else None),
    "shares": min,
    "profile": merge_profiles,
    "class_changes": _class_changes,
    "largest_changes": _largest_changes,
    "scales": _largest_scales,
    "rows_by_output": _merge_row_hashes,
    "gap": merge_results,
}
