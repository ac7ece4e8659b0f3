"""Figure of the results: time relative to Keras' layers, and growth with the length."""

import pathlib
import textwrap

import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker

from benchmarks import settings
from benchmarks.results import Results, describe
from benchmarks.settings import COMPARED, INFERENCE, LN_LSTM, TRAINING
from benchmarks.timing import growth_exponent
from benchmarks.use_cases import relative_time, use_cases

STYLES = {
    LN_LSTM: ("#1f5fa8", "o"),
    settings.LN_GRU: ("#7fb2e0", "s"),
    settings.BN_LSTM: ("#3f8f5f", "D"),
    settings.NO_NORM: ("#8a8a8a", "^"),
    settings.RNN_CELL: ("#e08a3c", "X"),
}
MODES = {TRAINING: "-", INFERENCE: "--"}


def plot(results: Results, path: pathlib.Path) -> None:
    """Draw the time of each use case relative to Keras, and the growth with T.

    Raises:
        ValueError: the results have no use case.
    """
    if not any(use_cases(results)):
        raise ValueError(
            "The results have none of the suites that the figure shows. Run "
            "`python -m benchmarks run` without --only."
        )
    figure = matplotlib.figure.Figure(figsize=(6.4, 10), layout="constrained")  # for phones too
    halves = figure.subfigures(2, 1, height_ratios=[1.6, 1])
    upper, lower = (half.subplots() for half in halves)
    _use_cases(upper, results)
    _growth(lower, results)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    legend = upper.get_legend_handles_labels()
    halves[0].legend(*legend, loc="outside upper left", ncols=3, frameon=False, fontsize=11)
    machine = textwrap.fill(describe(results.machine), 80)
    halves[1].supxlabel(machine, fontsize=8, color="dimgray", x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _use_cases(axes: matplotlib.axes.Axes, results: Results) -> None:
    """Draw a row per use case, with a marker at each layer's geometric mean."""
    rows = list(use_cases(results))
    for name in COMPARED:
        color, marker = STYLES[name]
        times = {y: relative_time(results, use, name) for y, use in enumerate(rows)}
        means = {y: time.mean for y, time in times.items() if time is not None}
        axes.scatter(
            list(means.values()),
            list(means),
            s=45,
            color=color,
            marker=marker,
            label=name,
            zorder=3,
        )
    axes.axvline(1, color="black", linewidth=1, label="keras.layers.LSTM, GRU")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(rows)), [f"{use.stage}: {use.call}" for use in rows], fontsize=11)
    axes.invert_yaxis()
    axes.grid(color="gainsboro", linewidth=0.6)
    axes.set_xlabel("time / time of the Keras layer (left is faster)", fontsize=11)
    axes.set_title("Common uses", loc="left", fontsize=13)


def _growth(axes: matplotlib.axes.Axes, results: Results) -> None:
    """Draw times over lengths on logarithmic axes; time ~ T is a line of slope 1."""
    axes.set_title("Growth with the length", loc="left", fontsize=13)
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
    axes.set_ylim(top=12 * axes.get_ylim()[1])  # space for the legend
    axes.legend(frameon=False, fontsize=11, loc="upper left", handlelength=3)
