"""Measure the differences between the outputs of a file and the expected outputs.

A `DifferenceProfile` has the data for two images of a report: a histogram and a map of differences.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_norm.export.compare.arrays import (
    absolute_difference,
    axis_names,
    incomparable,
    kind_of,
    largest,
    magnitude,
    to_bytes,
    to_float64,
)
from keras_norm.export.results.output_comparison import (
    DifferenceProfile,
    Element,
    Measurement,
    describe_position,
    largest_known,
)
from keras_norm.typing import Array, Json, TensorLike
from keras_norm_verify.printable import printable

# Upper bounds of the bins of a histogram of differences; the first bin has the differences of 0.
DECADES = (0.0, *(float(f"1e{k}") for k in range(-10, 3)), float("inf"))

# A map of differences has at most 128 cells on each axis, so that the JSON report stays small.
CELLS = 128
# Maximum number of characters of a text in a message.
SHOWN = 60


def measure(
    expected: Mapping[str, TensorLike],
    actual: Mapping[str, TensorLike],
    rtol: float,
    rows: Sequence[int] | None = None,
    source: str = "",
) -> tuple[Measurement, ...]:
    """Measure the differences between expected and actual outputs.

    A missing output, an extra output, another shape, another kind of dtype (float against int) or
    another text fails with any tolerance. The result's `problem` then names the reason.

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
            found = ", ".join(map(printable, actual)) or "none at all"
            results.append(Measurement(name, rtol, f"missing output; the outputs are: {found}"))
            continue
        e, a = np.asarray(value), np.asarray(actual[name])
        if problem := incomparable(e, a):
            results.append(Measurement(name, rtol, problem))
        elif kind_of(e) == "text":
            results.append(_compare_texts(name, e, a, rows, source))
        else:
            results.append(_measure_values(name, e, a, rtol, rows, source))
    extra = "extra output: the Keras model has no output with this name"
    return (*results, *(Measurement(n, rtol, extra) for n in actual if n not in expected))


def merge_measurements(one: Measurement, other: Measurement) -> Measurement:
    """Merge the measurements of one output on two batches into one measurement on both batches.

    If the largest differences are equal, the result has the position from `one`.

    Args:
        one: a result of `measure`.
        other: a result of `measure` for the same output, with the same `rtol`.
    """
    rtol = min(one.rtol, other.rtol)
    return Measurement(
        output=one.output,
        rtol=rtol,
        problem=one.problem or other.problem,
        exact=one.exact or other.exact,
        count=one.count + other.count,
        scale=max(one.scale, other.scale),
        max_abs=largest_known((one.max_abs, other.max_abs)),
        max_rel=largest_known((one.max_rel, other.max_rel)),
        worst=_select_worst(one.worst, other.worst, rtol),
        widest=_select_worst(one.widest, other.widest, 0.0),
        nan_expected=one.nan_expected + other.nan_expected,
        nan_actual=one.nan_actual + other.nan_actual,
        infinite=one.infinite + other.infinite,
        squared=one.squared + other.squared,
    )


def _select_worst(one: Element | None, other: Element | None, rtol: float) -> Element | None:
    """Return the worse of two elements: with this `rtol`, it needs the larger `atol` to pass."""
    known = [element for element in (one, other) if element is not None]
    return max(known, key=lambda element: element.excess(rtol), default=None)


def _compare_texts(
    name: str, e: Array, a: Array, rows: Sequence[int] | None, source: str
) -> Measurement:
    """Compare two arrays of texts; any difference is the `problem` of the result."""
    e, a = to_bytes(e), to_bytes(a)
    different = np.argwhere(e != a)
    problem = None
    if len(different):
        index = tuple(different[0].tolist())
        where = describe_position(_position(index, e, rows, source))
        actual, expected = (y[index].decode(errors="replace")[:SHOWN] for y in (a, e))
        problem = (
            f"{len(different)} of {e.size} texts differ ({where}: {actual!r}, expected "
            f"{expected!r})"
        )
    equal = Element((), 0.0, 0.0)
    return Measurement(
        name, 0.0, problem, True, e.size, max_abs=0.0, max_rel=0.0, worst=equal, widest=equal
    )


def _position(
    index: Sequence[int], e: Array, rows: Sequence[int] | None, source: str
) -> tuple[tuple[str, int], ...]:
    """Return an element's (axis, index) pairs in the data: (("sample", 3), ("timestep", 7))."""
    position = list(index)
    if rows is not None and position and len(rows) == len(e):
        position[0] = rows[position[0]]
    return tuple(zip(axis_names(e.ndim, source), position, strict=False))


def _measure_values(
    name: str, e: Array, a: Array, rtol: float, rows: Sequence[int] | None, source: str
) -> Measurement:
    exact = kind_of(e) != "float"
    rtol = 0.0 if exact else rtol
    e, a = to_float64(e), to_float64(a)
    difference = absolute_difference(e, a)
    size = np.abs(e)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.where(difference == 0, 0.0, difference - rtol * size)
        relative = np.where((difference == 0) | (e == 0), 0.0, difference / size)

    def element(rank: Array) -> Element:
        # NaN counts as infinite, so that the report names an element with NaN if there is one.
        index = np.unravel_index(int(np.argmax(np.where(np.isnan(rank), np.inf, rank))), e.shape)
        where = _position([int(k) for k in index], e, rows, source)
        return Element(where, float(e[index]), float(a[index]))

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
    )


def profile_differences(expected: TensorLike, actual: TensorLike) -> DifferenceProfile | None:
    """Compute a histogram of |actual - expected|, and the maximum at each timestep and unit.

    A report draws the histogram and the map of the maxima as images. The map has two axes: the
    first axis after the samples, and the last axis. Each value is the maximum over the other axes.
    For texts, and for arrays that cannot be compared, the result is None.

    Args:
        expected: array.
        actual: array.

    Example:
        >>> actual = np.array([[0.0, 0.5, 0.0], [0.0, 0.25, 0.0]])
        >>> profile_differences(np.zeros((2, 3)), actual).worst
        (0.0, 0.5, 0.0)
    """
    e, a = np.asarray(expected), np.asarray(actual)
    if incomparable(e, a) or e.ndim == 0 or kind_of(e) == "text":
        return None
    difference = absolute_difference(e, a)
    shown = sorted({min(1, e.ndim - 1), e.ndim - 1})
    worst = difference.max(axis=tuple(k for k in range(e.ndim) if k not in shown))
    widths = tuple(_cell_width(size) for size in worst.shape)
    worst = _merge_cells(worst, (1,) * worst.ndim, widths)
    bins = np.searchsorted(DECADES, np.nan_to_num(difference, nan=np.inf).ravel())
    return DifferenceProfile(
        axes=tuple(axis_names(e.ndim)[k] for k in shown),
        widths=widths,
        worst=_tuples(worst),
        counts=tuple(np.bincount(bins, minlength=len(DECADES)).tolist()),
        scale=largest([e]),
    )


def add_profiles(
    profiles: dict[str, DifferenceProfile | None],
    expected: Mapping[str, TensorLike],
    actual: Mapping[str, TensorLike],
) -> None:
    """Measure each output's differences on a batch, and merge them into `profiles`."""
    for name in [name for name in expected if name in actual]:
        new = profile_differences(expected[name], actual[name])
        profiles[name] = merge_profiles(profiles.get(name), new)


def merge_profiles(
    one: DifferenceProfile | None, other: DifferenceProfile | None
) -> DifferenceProfile | None:
    """Merge the histograms and maps of an output's differences on two parts of the data.

    The parts may differ in length. None means that a part has no differences.
    """
    if one is None or other is None:
        return one or other
    widths = tuple(map(max, one.widths, other.widths))
    parts = [_merge_cells(np.array(p.worst), p.widths, widths) for p in (one, other)]
    worst = np.zeros(tuple(map(max, *(part.shape for part in parts))))
    for part in parts:
        corner = worst[tuple(map(slice, part.shape))]
        np.maximum(corner, part, out=corner)
    counts = (a + b for a, b in zip(one.counts, other.counts, strict=True))
    scale = max(one.scale, other.scale)
    return DifferenceProfile(one.axes, widths, _tuples(worst), tuple(counts), scale)


def _cell_width(size: int) -> int:
    """Return how many indices of an axis share a cell of the map, which has at most 128 cells.

    The number is 1, 2, 4, or another power of 2.
    """
    width = 1
    while width * CELLS < size:
        width *= 2
    return width


def _merge_cells(worst: Array, old: tuple[int, ...], new: tuple[int, ...]) -> Array:
    """Merge neighboring cells of a map of differences into wider cells that hold the maximum.

    `old` and `new` are the numbers of indices in a cell, for each axis.
    """
    for axis, (narrow, wide) in enumerate(zip(old, new, strict=True)):
        starts = np.arange(0, worst.shape[axis], wide // narrow)
        worst = np.maximum.reduceat(worst, starts, axis=axis)
    return worst


def _tuples(worst: Array) -> tuple[Json, ...]:
    if worst.ndim > 1:
        return tuple(map(_tuples, worst))
    return tuple(float(f"{value:.2e}") for value in worst.tolist())
