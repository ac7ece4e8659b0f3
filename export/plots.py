"""The report's plots, as SVG to set into a page."""

import functools
import io
import re
from collections.abc import Callable, Sized
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from keras_norm.export.compare import DECADES, DifferenceProfile
from keras_norm.export.report import Report
from keras_norm.export.statistics import LayerStatistics

Profiles = dict[str, dict[str, DifferenceProfile]]

# A colour that stands for the page's text colour, in light and in dark.
INK = "#123456"
COLOURS = ("#3b82f6", "#f97316", "#10b981", "#a855f7", "#e11d48", "#a3a3a3")
STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


def plots(report: Report) -> list[tuple[str, str]]:
    """Every plot that the report has numbers for.

    Args:
        report: the report.

    Returns:
        (title, SVG) pairs.
    """
    drawn: list[tuple[str, Callable[[Any], None]]] = []
    for output, profiles in _profiles(report).items():
        drawn.append(
            (f"{output}: worst difference", functools.partial(_by_index, report, output, profiles))
        )
        drawn.append(
            (f"{output}: how large the differences are", functools.partial(_histogram, profiles))
        )
    measured = [layer for layer in report.gap.layers if layer.distance is not None]
    if measured:
        title = "Distance of the moving means from those of the data"
        drawn.append((title, functools.partial(_distances, measured)))
    return [(title, _svg(draw, f"plot{k}")) for k, (title, draw) in enumerate(drawn)]


def _profiles(report: Report) -> Profiles:
    """Output -> artefact -> profile."""
    found: Profiles = {}
    for result in report.artifacts:
        for output in result.outputs:
            if output.profile is not None:
                found.setdefault(output.output, {})[result.name] = output.profile
    return found


def _by_index(
    report: Report, output_name: str, profiles: dict[str, DifferenceProfile], ax: Any
) -> None:
    for k, (name, profile) in enumerate(profiles.items()):
        # Zero has no place on a logarithmic axis; a gap in the line shows exact equality.
        worst = [w if w > 0 else float("nan") for w in profile.worst]
        label = name if any(profile.worst) else f"{name}: equal everywhere"
        ax.plot(range(len(worst)), worst, ".-", label=label, linewidth=_width(k, profiles))
    outputs = [output for result in report.artifacts for output in result.outputs]
    for atol in {output.comparisons[0].atol for output in outputs if output.output == output_name}:
        ax.axhline(atol, color=INK, linewidth=0.8, linestyle=":", label=f"atol {atol:.2g}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_yscale("log")
    ax.set_xlabel(next(iter(profiles.values())).axis)
    ax.set_ylabel("|difference|")


def _histogram(profiles: dict[str, DifferenceProfile], ax: Any) -> None:
    labels = ["0", *(f"{bound:.0e}".replace("e-0", "e-") for bound in DECADES[1:-1]), "more"]
    for k, (name, profile) in enumerate(profiles.items()):
        shares = [100 * count / sum(profile.counts) for count in profile.counts]
        ax.step(range(len(shares)), shares, where="mid", label=name, linewidth=_width(k, profiles))
    ax.set_xticks(range(len(labels)), labels, rotation=60)
    ax.set_xlabel("|difference| up to")
    ax.set_ylabel("% of all values")


def _width(k: int, lines: Sized) -> float:
    """Thinner from line to line, so that lines in the same place are all seen."""
    return 1.0 + 4.0 * (len(lines) - 1 - k) / max(len(lines) - 1, 1)


def _distances(layers: list[LayerStatistics], ax: Any) -> None:
    stepwise = [layer for layer in layers if len(layer.by_row) > 1]
    if not stepwise:
        ax.barh([layer.path for layer in layers], [layer.distance for layer in layers], height=0.6)
        ax.invert_yaxis()
        ax.set_xlabel("standard deviations")
        return
    for layer in layers:
        if layer in stepwise:
            distances = [float("nan") if d is None else d for d in layer.by_row]
            ax.plot(range(len(distances)), distances, ".-", linewidth=1, label=layer.path)
        else:
            ax.axhline(layer.distance, color=INK, linewidth=1, linestyle="--", label=layer.path)
    ax.set_xlabel("timestep")
    ax.set_ylabel("standard deviations")
    ax.set_ylim(bottom=0)


def _svg(draw: Callable[[Any], None], prefix: str) -> str:
    """Draw into an SVG element that stands in a page: no URLs, ids of its own, the page's ink."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": prefix}):
        figure = Figure(figsize=(6.0, 4.2))
        ax = figure.subplots()
        ax.set_prop_cycle(color=COLOURS)
        draw(ax)
        if ax.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower left", fontsize=9)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'\b(id="|url\(#|xlink:href="#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', svg)
    return svg.replace(INK, "currentColor")
