"""Plot how far outputs are from the Keras model's at each timestep, with the tolerance."""

from typing import TYPE_CHECKING

import numpy as np

from keras_norm.export.report.tables import group_by_item
from keras_norm.export.results.check_result import CheckResult
from keras_norm.export.results.output_comparison import OutputResult
from keras_norm.new_figure import COLORS, label_of, new_figure
from keras_norm_verify.printable import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "os^Dv*"


def plot_differences(report: CheckResult) -> "Figure":
    """Plot the largest difference of each output from the Keras model at each timestep.

    `keras_norm.export.Report.plot` documents the figure and the errors.

    Args:
        report: the report.
    """
    results: dict[str, list[tuple[str, OutputResult]]] = {}
    precisions = {artifact.name: artifact.precision for artifact in report.artifacts}
    for artifact in report.artifacts:
        for result in artifact.outputs:
            if result.profile is not None:
                results.setdefault(result.output, []).append((artifact.name, result))
    if not results:
        raise ValueError(
            "The report has no differences to draw, because no output has the shape that it has in "
            "the Keras model. Call report.print() for the reasons."
        )
    order = [artifact.name for artifact in report.artifacts]
    figure, grid = new_figure(len(results), 1, 2.6)
    for (output, found), (axes,) in zip(results.items(), grid, strict=True):
        axes.set_title(label_of(f"output {printable(output)}"), loc="left", fontsize="medium")
        axes.set_ylabel("largest |difference|")
        axes.set_yscale("log")
        for names, result in group_by_item(found):
            _draw(axes, names, result, order.index(names[0]))
        _draw_tolerances(axes, [(precisions[name], result) for name, result in found])
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small")
    return figure


def _draw(axes: "Axes", names: tuple[str, ...], result: OutputResult, k: int) -> None:
    """Plot the differences of one output, which are equal for all artifacts in `names`.

    `k` is the index of the color and of the marker.
    """
    profile = result.profile
    assert profile is not None
    # The axes of `profile.worst` are (timestep, unit), (unit,) or (sample,). NaN becomes infinity.
    worst = np.nan_to_num(np.array(profile.worst, "float64"), nan=np.inf, posinf=np.inf)
    values = worst.reshape(len(worst), -1).max(axis=1)
    positions = profile.widths[0] * np.arange(len(values))
    axis = profile.axes[0]
    axes.set_xlabel(axis)
    axes.locator_params(axis="x", integer=True, min_n_ticks=1)
    label = "\n".join(map(printable, names)) + " (equal)" * profile.equal
    axes.plot(
        positions,
        np.where(np.isfinite(values) & (values > 0), values, np.nan),  # a logarithmic axis has no 0
        label=label_of(label),
        color=COLORS[k % len(COLORS)],
        marker=MARKERS[k % len(MARKERS)],
        markerfacecolor="none",
        linestyle="-" if axis == "timestep" else "none",
        linewidth=1.2,
    )
    endless = positions[np.isinf(values)]
    if len(endless):
        axes.plot(
            endless,
            np.ones(len(endless)),
            "x",
            label=label_of(f"{label}: NaN or infinite"),
            color=COLORS[k % len(COLORS)],
            transform=axes.get_xaxis_transform(),  # y = 1 is the top edge of the plot
            clip_on=False,
        )


def _draw_tolerances(axes: "Axes", found: list[tuple[str, OutputResult]]) -> None:
    """Draw each tolerance of an output as one dashed line.

    Args:
        axes: the axes of the output.
        found: (precision, result) pairs.
    """
    limits = []
    for precision, result in found:
        worst = result.comparisons[result.worst_case]
        if result.profile is not None and worst.problem is None:
            limit = worst.atol + worst.rtol * result.profile.scale
            kind = "tolerance" if worst.rms is None else "limit of the root mean square"
            limits.append((precision, (limit, kind)))
    for k, (names, (limit, kind)) in enumerate(group_by_item(dict.fromkeys(limits))):
        style = ("--", ":", "-.")[k % 3]
        label = f"{kind} for {', '.join(names)}"
        axes.axhline(limit, color="0.3", linestyle=style, linewidth=1.2, label=label)
