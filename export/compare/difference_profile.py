"""Compute where two arrays differ and by how much, for a report's histogram and map."""

from typing import Any

import numpy as np

from keras_norm.export.compare.element_differences import (
    absolute_difference,
    axis_names,
    incomparable,
    largest,
)
from keras_norm.export.results.output_comparison import DifferenceProfile

# Upper bounds of the histogram's bins; the first bin holds exact zeros.
DECADES = (0.0, *(float(f"1e{k}") for k in range(-10, 3)), float("inf"))

# Maximum number of cells along an axis of the map: enough to see a pattern, and little JSON.
CELLS = 128


def profile(expected: Any, actual: Any) -> DifferenceProfile | None:
    """Compute the profile of |actual - expected|, or None for arrays that cannot be compared.

    The map shows the first axis after the samples and the last axis. Along any other axis it shows
    the maximum.

    Args:
        expected: array.
        actual: array.

    Example:
    >>> profile(np.zeros((2, 3)), np.array([[0.0, 0.5, 0.0], [0.0, 0.25, 0.0]])).worst
    (0.0, 0.5, 0.0)
    """
    e, a = np.asarray(expected), np.asarray(actual)
    if incomparable(e, a) or e.ndim == 0:
        return None
    difference = absolute_difference(e, a)
    kept = sorted({min(1, e.ndim - 1), e.ndim - 1})
    worst = difference.max(axis=tuple(k for k in range(e.ndim) if k not in kept))
    widths = tuple(_width(size) for size in worst.shape)
    worst = _widened(worst, (1,) * worst.ndim, widths)
    bins = np.searchsorted(DECADES, np.nan_to_num(difference, nan=np.inf).ravel())
    return DifferenceProfile(
        axes=tuple(axis_names(e.ndim)[k] for k in kept),
        widths=widths,
        worst=_tuples(worst),
        counts=tuple(np.bincount(bins, minlength=len(DECADES)).tolist()),
        scale=largest([e]),
    )


def merged(
    one: DifferenceProfile | None, other: DifferenceProfile | None
) -> DifferenceProfile | None:
    """Merge two profiles, also of outputs that differ in length; None means no elements."""
    if one is None or other is None:
        return one or other
    widths = tuple(map(max, one.widths, other.widths))
    parts = [_widened(np.array(p.worst), p.widths, widths) for p in (one, other)]
    worst = np.zeros(tuple(map(max, *(part.shape for part in parts))))
    for part in parts:
        corner = worst[tuple(map(slice, part.shape))]
        np.maximum(corner, part, out=corner)
    counts = (a + b for a, b in zip(one.counts, other.counts, strict=True))
    scale = max(one.scale, other.scale)
    return DifferenceProfile(one.axes, widths, _tuples(worst), tuple(counts), scale)


def _width(size: int) -> int:
    """Return the smallest power of two that splits `size` indices into at most `CELLS` cells."""
    width = 1
    while width * CELLS < size:
        width *= 2
    return width


def _widened(worst: np.ndarray, old: tuple[int, ...], new: tuple[int, ...]) -> np.ndarray:
    """Widen cells from `old` to `new` indices along each axis, by the maximum over merged cells."""
    for axis, (narrow, wide) in enumerate(zip(old, new, strict=True)):
        starts = np.arange(0, worst.shape[axis], wide // narrow)
        worst = np.maximum.reduceat(worst, starts, axis=axis)
    return worst


def _tuples(worst: np.ndarray) -> tuple[Any, ...]:
    if worst.ndim > 1:
        return tuple(map(_tuples, worst))
    return tuple(float(f"{value:.2e}") for value in worst.tolist())
