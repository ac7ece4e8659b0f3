"""The report's pictures: small PNGs and bars, whose colour says how much of a limit is used up."""

import base64
import dataclasses
import io
import itertools
import math

import numpy as np
from PIL import Image

from keras_norm.export.compare.difference_profile import DECADES
from keras_norm.export.results.gap_result import LARGE_DISTANCE, LayerStatistics
from keras_norm.export.results.output_comparison import DifferenceProfile, OutputComparison

# Blue up to the limit, the fainter the less of it is used, which shows on white and on black; from
# the limit on orange, then red. The page's legend has the same colours.
BLUE, ORANGE, RED = (59, 130, 246), (249, 115, 22), (190, 18, 60)

# The scale of colours: 0 is equality, 1 the limit, reached by DOWN decades; 2 is UP decades above.
FAINTEST, DOWN, UP = 0.1, 4, 2

# Of a map, in the page's text sizes.
ROW_HEIGHT, LEAST_HEIGHT, MOST_HEIGHT = 0.9, 1.5, 13.0


@dataclasses.dataclass(frozen=True)
class Axis:
    """One side of a map.

    Attributes:
        name: "timestep", "unit", or "" for the side that a strip has none of.
        ticks: the first index of the first, the middle and the last cell.
        width: how many indices a cell stands for.
        mark: where the worst element is, in percent of the side; None where nothing differs.
    """

    name: str
    ticks: tuple[int, ...]
    width: int
    mark: float | None


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar of a histogram.

    Attributes:
        label: the largest difference that it counts.
        share: percent of all elements.
        height: in percent of the highest bar.
        colour: as CSS says it.
    """

    label: str
    share: float
    height: float
    colour: str


@dataclasses.dataclass(frozen=True)
class DifferenceMap:
    """Where one output differs and by how much.

    Attributes:
        image: the worst difference of each cell, as a data URI.
        height: of the image, in the page's text sizes.
        across: the horizontal axis, time where there is one.
        down: the vertical axis.
        bars: the histogram of all differences.
    """

    image: str
    height: float
    across: Axis
    down: Axis
    bars: tuple[Bar, ...]


def difference_map(comparison: OutputComparison, spread: DifferenceProfile) -> DifferenceMap:
    """Draw the differences of one output in one artefact.

    Args:
        comparison: the case that needs the widest tolerance.
        spread: the differences of all cases, some of which are not 0.
    """
    # A value that fails is seen beyond the limit, which there follows its own size; where all pass,
    # none is: the limit is that of the largest value.
    failed = comparison.problem is None and not comparison.passed
    size = abs(comparison.expected or 0.0) if failed else spread.scale
    allowed = comparison.atol + comparison.rtol * size
    worst = np.array(spread.worst)
    place = dict(comparison.where)
    axes = [
        _axis(name, size, width, place.get(name))
        for name, size, width in zip(spread.axes, worst.shape, spread.widths, strict=True)
    ]
    across, down = (*axes, Axis("", (), 1, 50.0))[:2]
    cells = np.atleast_2d(worst.T)  # time runs across
    return DifferenceMap(
        image=_png(colours(used(cells, allowed))),
        height=min(max(ROW_HEIGHT * len(cells), LEAST_HEIGHT), MOST_HEIGHT),
        across=across,
        down=down,
        bars=_histogram(spread.counts, allowed),
    )


def strip(layer: LayerStatistics) -> str:
    """The distance of each row of per-timestep statistics as a data URI, "" for a single row.

    Args:
        layer: a batch normalization; rows that were not reached stay blank.
    """
    if len(layer.by_row) == 1:
        return ""
    limits = [0.0 if d is None else max(d / LARGE_DISTANCE, FAINTEST) for d in layer.by_row]
    return _png(colours(np.clip([limits], 0.0, 2.0)))


def used(difference: np.ndarray, allowed: float) -> np.ndarray:
    """How much of what is allowed differences use up, on the scale of colours.

    Args:
        difference: absolute differences.
        allowed: the limit.

    Returns:
        0 for equality, 1 for the limit, up to 2 beyond it, logarithmically; NaN counts as infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        decades = np.log10(np.nan_to_num(np.divide(difference, allowed), nan=np.inf))
    level = np.clip(1.0 + decades / np.where(decades > 0, UP, DOWN), FAINTEST, 2.0)
    return np.where(difference == 0, 0.0, level)


def colours(level: np.ndarray) -> np.ndarray:
    """Pixels (..., red green blue alpha) of `used`, transparent where nothing is."""
    beyond = np.clip(level - 1.0, 0.0, 1.0)[..., None]
    ink = np.where(beyond > 0, (1 - beyond) * ORANGE + beyond * np.array(RED), BLUE)
    alpha = 255 * np.clip(level, 0.0, 1.0)[..., None]
    return np.concatenate([ink, alpha], axis=-1).astype(np.uint8)


def _axis(name: str, cells: int, width: int, place: int | None) -> Axis:
    if name == "sample":  # a row of its batch: not the number that the user knows
        return Axis(name, (), width, None)
    ticks = sorted({0, (cells - 1) // 2, cells - 1})
    mark = None if place is None else 100 * (place // width + 0.5) / cells
    return Axis(name, tuple(width * tick for tick in ticks), width, mark)


def _histogram(counts: tuple[int, ...], allowed: float) -> tuple[Bar, ...]:
    """A bar for equality, and one for every decade from the least to the largest difference."""
    present = [k for k, count in enumerate(counts) if k and count]
    bars = [("0", counts[0], "transparent")]
    bounds = list(itertools.pairwise(DECADES))
    for k in range(present[0], present[-1] + 1):
        lower, upper = bounds[k - 1]
        # The least of the bar gives its colour: what passes is not shown as if it failed.
        red, green, blue, alpha = colours(used(np.array(lower or upper / 10), allowed)).tolist()
        label = f"{upper:g}" if upper >= 0.01 else f"{upper:.0e}".replace("e-0", "e-")
        colour = f"rgb({red} {green} {blue} / {alpha / 255:.2f})"
        bars.append(("more" if math.isinf(upper) else label, counts[k], colour))
    every, most = sum(counts), max(counts)
    return tuple(Bar(label, 100 * n / every, 100 * n / most, colour) for label, n, colour in bars)


def _png(pixels: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
