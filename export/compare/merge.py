"""Merge the results of a check that were measured on parts of the data, in any order."""

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

# Value of any field of a measurement: for example, a number, a text or a tuple.
Value: TypeAlias = Json
# For each output, its name and its largest absolute value.
Scales: TypeAlias = tuple[tuple[str, float], ...]
# For each output, its name and the hashes of one or two rows. Two hashes mean that rows differ.
RowHashes: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
# The classes of results that `merge_results` merges field by field.
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
    """Merge the measurements on several parts of the data into the measurements on all data.

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
    """Merge the results of a check for two parts of the data into one result.

    Both results have one class. `RULES` has the function that merges each field. A field without a
    rule has equal values in both results.

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
    """Return the elements of an output that differ most, selected from two measurements.

    `worst` is the worst element by the tolerance, `widest` by the absolute difference.
    """
    if (one.output, one.rtol) != (other.output, other.rtol):
        raise ValueError(
            "Measurements can be merged only if they have the same output and the same rtol. "
            f"Received: output {one.output!r} with rtol={one.rtol}, and output {other.output!r} "
            f"with rtol={other.rtol}."
        )
    rtol = 0.0 if one.exact or other.exact else one.rtol
    return {
        "worst": _select_worst((one.worst, other.worst), rtol),
        "widest": _select_worst((one.widest, other.widest), 0.0),
    }


def _select_worst(elements: Iterable[Element | None], rtol: float) -> Element | None:
    """Return the element with the largest |actual - expected| - rtol |expected|.

    Of several such elements, return the one with the first position.
    """
    known = (element for element in elements if element is not None)
    return min(known, key=lambda x: (-x.excess(rtol), x.where), default=None)


def _join(one: tuple[Result, ...], other: tuple[Result, ...]) -> tuple[Result, ...]:
    """Merge two lists of results: results for one output, artifact or layer become one result."""
    found: dict[tuple[object, ...], Result] = {}
    for item in (*one, *other):
        # Sums of different shapes cannot be added, so their results stay separate.
        names = [getattr(item, name, None) for name in ("output", "name", "rows", "index")]
        key = (*names, np.shape(getattr(item, "total", 0)))
        found[key] = merge_results(found[key], item) if key in found else item
    return tuple(found.values())


def _largest_scales(one: Scales, other: Scales) -> Scales:
    """Return the largest absolute value of each output in two parts of the data."""
    found = dict(one)
    return tuple((found | {n: max(x, found.get(n, x)) for n, x in other}).items())


def _merge_row_hashes(one: RowHashes, other: RowHashes) -> RowHashes:
    """Return one or two row hashes of each output, which show whether its rows differ.

    The two lowest hashes do not depend on the order of the parts.
    """
    found = dict(one)
    joined = {n: tuple(sorted({*found.get(n, ()), *rows})[:2]) for n, rows in other}
    return tuple((found | joined).items())


def _first_text(one: str | None, other: str | None) -> str | None:
    """Return the alphabetically first of two error messages, whatever the order of the data."""
    return min(filter(None, (one, other)), default=None)


def _class_changes(
    one: tuple[ClassChange, ...], other: tuple[ClassChange, ...]
) -> tuple[ClassChange, ...]:
    """Add up how often each class changed to another class, the most frequent change first."""
    found: collections.Counter[tuple[float, float]] = collections.Counter()
    for change in (*one, *other):
        found[change.before, change.after] += change.count
    return tuple(
        ClassChange(*key, n) for key, n in sorted(found.items(), key=lambda x: (-x[1], x[0]))
    )


def _largest_changes(
    one: tuple[ChangedPrediction, ...], other: tuple[ChangedPrediction, ...]
) -> tuple[ChangedPrediction, ...]:
    """Return the predictions that changed most in two parts of the data, at most `MAX_LISTED`."""
    return tuple(heapq.nsmallest(MAX_LISTED, (*one, *other), lambda c: (-c.size, c.where)))


SUMS = ["samples", "count", "total", "squares", "squared", "signed"]
SUMS += ["nan_expected", "nan_actual", "infinite"]
SUMS += ["predictions", "changed", "fixed", "broken", "values", "lost"]
LISTS = ["spreads", "tallies", "agreements", "artifacts", "outputs", "layers"]
LISTS += ["inference", "training"]
# For each field name, the function that merges the field's values from two parts of the data.
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
