"""The picture of the results: shares of Keras' LSTM's time, and the growth with the length."""

import pathlib

import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker
import numpy as np

from benchmarks import settings
from benchmarks.results import Measurement, Results, describe
from benchmarks.settings import INFERENCE, LN_LSTM, LSTM, REFERENCES, TRAINING
from benchmarks.timing import Spread, geometric_mean, growth_exponent

GEMMS = "its matrix products alone"
COLORS = {
    GEMMS: "#b8b8b8",
    LN_LSTM: "#1f5fa8",
    settings.BN_LSTM: "#6f9fd0",
    settings.LN_GRU: "#b4cfe8",
    settings.RNN_CELL: "#e08a3c",
}
MODES = {TRAINING: "-", INFERENCE: "--"}


def plot(results: Results, path: pathlib.Path) -> None:
    """Draw the recurrent layers' bars and the growth with T.

    Raises:
        ValueError: the results hold no recurrent layers.
    """
    if not results.of("recurrent"):
        raise ValueError("the results hold no recurrent layers to draw: run that suite")
    figure = matplotlib.figure.Figure(figsize=(11, 6.2), layout="constrained")
    panels: dict[str, matplotlib.axes.Axes] = figure.subplot_mosaic(
        [[TRAINING, "growth"], [INFERENCE, "growth"]], width_ratios=[2.1, 1]
    )
    for mode in MODES:
        _bars(panels[mode], results, mode)
    legend = panels[TRAINING].get_legend_handles_labels()
    figure.legend(*legend, loc="outside lower left", ncols=len(COLORS) + 1, frameon=False)
    _growth(panels["growth"], results)
    for axes in panels.values():
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(describe(results.machine), fontsize=8, color="dimgray", x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _bars(axes: matplotlib.axes.Axes, results: Results, mode: str) -> None:
    """A group of bars for every shape, and one for the geometric mean of the training shapes."""
    measured = results.of("recurrent", mode)
    groups = [",".join(map(str, m.shape)) for m in measured] + ["geometric mean"]
    width = 0.84 / len(COLORS)
    for i, (label, color) in enumerate(COLORS.items()):
        ratios = [_share(m, label) for m in measured]
        ratios.append(_mean(results, mode, label))
        x = np.arange(len(groups)) + (i - (len(COLORS) - 1) / 2) * width
        kept = [(at, r) for at, r in zip(x, ratios, strict=True) if r is not None]
        heights = [r.median for _, r in kept]
        errors = [[r.median - r.low for _, r in kept], [r.high - r.median for _, r in kept]]
        bars = axes.bar(
            [at for at, _ in kept],
            heights,
            width,
            color=color,
            label=label,
            yerr=errors,
            error_kw={"linewidth": 0.8},
        )
        if label == LN_LSTM:
            axes.bar_label(bars, [f"{h:.2f}" for h in heights], fontsize=8, padding=2)
    axes.axhline(1, color="black", linewidth=0.8, label="keras.layers.LSTM")
    axes.set_xticks(range(len(groups)), groups, fontsize=8)
    axes.set_ylabel("time / keras.layers.LSTM")
    axes.set_title(f"{mode.capitalize()} at B,T,D,H: lower is faster", loc="left", fontsize=11)


def _names(measurement: Measurement, label: str) -> str | None:
    """The measured variant that a bar stands for."""
    if label == GEMMS:
        return measurement.fastest(tuple(settings.FLOORS))
    return label if label in measurement.values else None


def _share(measurement: Measurement, label: str) -> Spread | None:
    name = _names(measurement, label)
    return None if name is None else measurement.ratio(name, REFERENCES[LSTM])


def _mean(results: Results, mode: str, label: str) -> Spread | None:
    """The geometric mean over the training shapes, which has no spread of its own."""
    shapes = {m.shape for m in results.of("recurrent", TRAINING)}
    found = [_share(m, label) for m in results.of("recurrent", mode) if m.shape in shapes]
    medians = [ratio.median for ratio in found if ratio is not None]
    return Spread.of([geometric_mean(medians)]) if medians else None


def _growth(axes: matplotlib.axes.Axes, results: Results) -> None:
    """Times over lengths on logarithmic axes, where time ~ T is a straight line of slope 1."""
    axes.set_title("Growth with the length", loc="left", fontsize=11)
    if not results.of("growth"):
        axes.text(0.5, 0.5, "not measured", ha="center", color="dimgray")
        return
    for mode, style in MODES.items():
        measured = results.of("growth", mode)
        lengths = [m.shape[1] for m in measured]
        for name, color in ((LN_LSTM, COLORS[LN_LSTM]), (settings.KERAS_LSTM, "black")):
            times = [m.median(name) * 1e3 for m in measured]
            exponent = growth_exponent(lengths, times)
            label = f"{name}, {mode}: T^{exponent:.2f}"
            axes.plot(lengths, times, style, color=color, marker="o", markersize=4, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_xticks(lengths, [str(length) for length in lengths])
    batch, _, inputs, units = measured[0].shape
    axes.set(xlabel=f"T at (B, D, H) = ({batch}, {inputs}, {units})", ylabel="milliseconds")
    axes.grid(color="gainsboro", linewidth=0.6)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
