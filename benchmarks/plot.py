"""The picture of the results: what a user does beside Keras' layers, and growth with the length."""

import pathlib

import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker

from benchmarks import settings
from benchmarks.results import Results, describe
from benchmarks.settings import BESIDE, INFERENCE, LN_LSTM, TRAINING
from benchmarks.timing import growth_exponent
from benchmarks.uses import share, uses

# Color and marker of each layer.
STYLES = {
    LN_LSTM: ("#1f5fa8", "o"),
    settings.LN_GRU: ("#7fb2e0", "s"),
    settings.BN_LSTM: ("#3f8f5f", "D"),
    settings.NO_NORM: ("#8a8a8a", "^"),
    settings.RNN_CELL: ("#e08a3c", "X"),
}
MODES = {TRAINING: "-", INFERENCE: "--"}


def plot(results: Results, path: pathlib.Path) -> None:
    """Draw a row of layers for everything a user does, and the growth with T.

    Raises:
        ValueError: the results hold nothing of the kind.
    """
    if not any(uses(results)):
        raise ValueError("the results hold nothing that a user does: run those suites")
    figure = matplotlib.figure.Figure(figsize=(11, 6.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2.1, 1])
    _uses(left, results)
    _growth(right, results)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    legend = left.get_legend_handles_labels()
    figure.legend(*legend, loc="outside lower left", ncols=len(STYLES) + 1, frameon=False)
    figure.suptitle(describe(results.machine), fontsize=8, color="dimgray", x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _uses(axes: matplotlib.axes.Axes, results: Results) -> None:
    """A row for every use, a mark for every layer's geometric mean."""
    rows = list(uses(results))
    for name in BESIDE:
        color, marker = STYLES[name]
        shares = {at: found for at, use in enumerate(rows) if (found := share(results, use, name))}
        means = [found.mean for found in shares.values()]
        axes.scatter(means, list(shares), s=45, color=color, marker=marker, label=name, zorder=3)
    axes.axvline(1, color="black", linewidth=1, label="keras.layers.LSTM, GRU")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(rows)), [f"{use.when}: {use.what}" for use in rows], fontsize=9)
    axes.invert_yaxis()
    axes.grid(color="gainsboro", linewidth=0.6)
    axes.set_xlabel("time / Keras' layer: left is faster")
    axes.set_title("What a user does", loc="left", fontsize=11)


def _growth(axes: matplotlib.axes.Axes, results: Results) -> None:
    """Times over lengths on logarithmic axes, where time ~ T is a straight line of slope 1."""
    axes.set_title("Growth with the length", loc="left", fontsize=11)
    if not results.of("growth"):
        axes.text(0.5, 0.5, "not measured", ha="center", color="dimgray")
        return
    for mode, style in MODES.items():
        measured = results.of("growth", mode)
        lengths = [m.shape[1] for m in measured]
        for name, color in ((LN_LSTM, STYLES[LN_LSTM][0]), (settings.KERAS_LSTM, "black")):
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
    axes.set_ylim(top=3 * axes.get_ylim()[1])  # above the lines, the legend
    axes.legend(frameon=False, fontsize=8, loc="upper left", handlelength=3)
