"""Create figures of Matplotlib, and import Matplotlib only for the first figure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colors that color-blind people can distinguish: the palette of Okabe and Ito without yellow and
# black.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def new_figure(rows: int, columns: int, height: float) -> "tuple[Figure, list[list[Axes]]]":
    """Create a figure with a grid of axes; a notebook shows the figure if a cell returns it.

    Args:
        rows: number of rows of axes.
        columns: number of axes in a row.
        height: height of a row in inches; the figure is 8 inches wide.

    Returns:
        The figure, and its axes by row and column.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            f'plots need matplotlib: pip install ".[plot]" in a clone of keras_norm ({error})'
        ) from error
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(8, rows * height + 0.4), squeeze=False, layout="constrained"
    )
    # Without `close`, a notebook would show the figure twice: as an open figure, and as the result.
    pyplot.close(figure)
    for each in axes.flat:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(color="0.9", linewidth=0.8)
        each.set_axisbelow(True)
    return figure, [list(row) for row in axes]


def label_of(name: str) -> str:
    """Escape a name for Matplotlib, which hides labels that begin with _, and reads $ as a formula.

    Args:
        name: name of a layer, an output or a file.
    """
    return name.replace("$", r"\$").replace("_", " _", name.startswith("_"))
