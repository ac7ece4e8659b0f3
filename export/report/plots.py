"""Draw the images of the report; colors show a difference relative to its tolerance."""

import base64
import dataclasses
import io
import itertools
import math

import numpy as np
from PIL import Image

from keras_norm.export.compare.output_differences import DECADES
from keras_norm.export.results.gap_result import LARGE_DISTANCE, LayerStatistics
from keras_norm.export.results.output_comparison import DifferenceProfile, OutputComparison

# Colors of differences: blue up to the tolerance, orange just above the tolerance, and red far
# above the tolerance. Smaller differences are more transparent, so the colors fit white and black
# pages. The legend in report.html repeats these three colors.
BLUE, ORANGE, RED = (59, 130, 246), (249, 115, 22), (190, 18, 60)

# A color level is a number from 0 to 2: 0 for equal values, 1 for a difference as large as the
# tolerance, and 2 for a difference of at least 10**UP times the tolerance. Every other difference
# has at least the level FAINTEST, so that its color is visible.
FAINTEST, DOWN, UP = 0.1, 4, 2

# Heights in an image of differences, in units of the page's font size: the height of one row of
# cells, and the minimum and the maximum height of the whole image.
ROW_HEIGHT, LEAST_HEIGHT, MAX_HEIGHT = 0.9, 1.5, 13.0


@dataclasses.dataclass(frozen=True)
class Axis:
    """One axis of an image of differences: name, ticks and position of the worst element.

    Attributes:
        name: "timestep" or "unit"; "sample" for outputs without units; "" for the second side of an
            image with one axis.
        ticks: the first index of the first, the middle and the last cell.
        width: number of indices in a cell.
        mark: position of the worst element in percent of the side; None if it is not known.
    """

    name: str
    ticks: tuple[int, ...]
    width: int
    mark: float | None


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar of the histogram of differences.

    Attributes:
        label: the largest difference in this bin.
        share: percent of all elements.
        height: height in percent of the highest bar.
        color: a CSS color.
    """

    label: str
    share: float
    height: float
    color: str


@dataclasses.dataclass(frozen=True)
class DifferenceMap:
    """Image and histogram of the differences between an output and its expected values.

    Attributes:
        image: the worst difference of each cell, as a PNG in a data URI.
        height: height of the image, in units of the page's font size.
        across: the horizontal axis; the time axis if there is one.
        down: the vertical axis.
        bars: the histogram of all differences.
    """

    image: str
    height: float
    across: Axis
    down: Axis
    bars: tuple[Bar, ...]


def difference_map(comparison: OutputComparison, spread: DifferenceProfile) -> DifferenceMap:
    """Draw the differences between an output of an artifact and the Keras model's output.

    Args:
        comparison: the comparison that needs the widest tolerance.
        spread: the differences over all test inputs; at least one is not 0.
    """
    # The tolerance atol + rtol |expected| differs between elements, but the image has one color
    # scale. If the comparison failed, use the tolerance of the worst element: its color then shows
    # the failure. If the comparison passed, use the largest tolerance: no color shows a failure.
    failed = comparison.problem is None and not comparison.passed
    allowed = comparison.allowed if failed else comparison.atol + comparison.rtol * spread.scale
    worst = np.array(spread.worst)
    where = dict(comparison.where)
    axes = [
        _axis(name, size, width, where.get(name))
        for name, size, width in zip(spread.axes, worst.shape, spread.widths, strict=True)
    ]
    across, down = (*axes, Axis("", (), 1, 50.0))[:2]
    cells = np.atleast_2d(worst.T)  # the time axis is horizontal
    return DifferenceMap(
        image=_png(colors(color_levels(cells, allowed))),
        height=min(max(ROW_HEIGHT * len(cells), LEAST_HEIGHT), MAX_HEIGHT),
        across=across,
        down=down,
        bars=_histogram(spread.counts, allowed),
    )


def draw_distances(layer: LayerStatistics) -> str:
    """Draw how far a BatchNorm's moving means are from the means of the data at each timestep.

    Args:
        layer: statistics of a batch normalization; timesteps that training or the
            data did not reach are transparent.

    Returns:
        A PNG in a data URI, or "" for a layer with a single row of statistics.
    """
    if len(layer.by_row) == 1:
        return ""
    limits = [0.0 if d is None else max(d / LARGE_DISTANCE, FAINTEST) for d in layer.by_row]
    return _png(colors(np.clip([limits], 0.0, 2.0)))


def color_levels(difference: np.ndarray | float, allowed: float) -> np.ndarray:
    """Convert differences to color levels: 0 for equal values, 1 for the tolerance, 2 far above.

    Args:
        difference: absolute differences.
        allowed: the tolerance.

    Returns:
        0 for no difference, 1 for the tolerance, up to 2 above the tolerance, on a logarithmic
        scale. NaN counts as infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        decades = np.log10(np.nan_to_num(np.divide(difference, allowed), nan=np.inf))
    level = np.clip(1.0 + decades / np.where(decades > 0, UP, DOWN), FAINTEST, 2.0)
    return np.where(difference == 0, 0.0, level)


def colors(level: np.ndarray) -> np.ndarray:
    """Convert color levels to RGBA pixels (..., 4): 0 is transparent, 1 is blue, 2 is red."""
    beyond = np.clip(level - 1.0, 0.0, 1.0)[..., None]
    ink = np.where(beyond > 0, (1 - beyond) * ORANGE + beyond * np.array(RED), BLUE)
    alpha = 255 * np.clip(level, 0.0, 1.0)[..., None]
    return np.concatenate([ink, alpha], axis=-1).astype(np.uint8)


def _axis(name: str, cells: int, width: int, index: int | None) -> Axis:
    # An axis of samples has no ticks: the index is the number of a row in the batch, not the number
    # of a sample in the user's data.
    if name == "sample":
        return Axis(name, (), width, None)
    ticks = sorted({0, (cells - 1) // 2, cells - 1})
    mark = None if index is None else 100 * (index // width + 0.5) / cells
    return Axis(name, tuple(width * tick for tick in ticks), width, mark)


def _histogram(counts: tuple[int, ...], allowed: float) -> tuple[Bar, ...]:
    """Make the bars of a histogram of differences: one for 0, and one for each power of ten."""
    present = [k for k, count in enumerate(counts) if k and count]
    bars = [("0", counts[0], "transparent")]
    bounds = list(itertools.pairwise(DECADES))
    for k in range(present[0], present[-1] + 1):
        lower, upper = bounds[k - 1]
        # A bin may have differences below and above the tolerance. Color it by its lower bound: the
        # color of a failure means that all differences in the bin are above the tolerance.
        level = color_levels(lower or upper / 10, allowed)
        red, green, blue, alpha = colors(level).tolist()
        label = f"{upper:g}" if upper >= 0.01 else f"{upper:.0e}".replace("e-0", "e-")
        color = f"rgb({red} {green} {blue} / {alpha / 255:.2f})"
        bars.append(("more" if math.isinf(upper) else label, counts[k], color))
    every, most = sum(counts), max(counts)
    return tuple(Bar(label, 100 * n / every, 100 * n / most, color) for label, n, color in bars)


def _png(pixels: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
