"""Plots of a study: the validation curves of its runs, and the samples that its models drew.

Each model has one color. A thin line is one seed. A thick line is the mean over the seeds; it
ends where the shortest run ends. Each task has a panel. If the study draws a figure of the paper
again, each curve of that figure has a panel.
"""

import pathlib
from collections.abc import Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.run_scores import EPOCHS
from experiments.harness.runs import chosen_runs
from experiments.harness.study import Curve, Study, Training

MAX_MODELS = 6  # more lines in a panel cannot be told apart
COLORS = {"LN": "C1", "BN": "C2"}  # by the first letters of a model, equal in every plot
COLUMNS = 3  # panels in a row if there is one task


def draw_curves(study: Study, results: ResultsFile, path: pathlib.Path) -> None:
    """Plot the curves of the runs with the chosen learning rate.

    Nothing is written if the study does not train, has too many models, or has a model without
    results.
    """
    found = chosen_runs(study, study.full, results)
    tasks = list(dict.fromkeys(task for task, _ in found))
    models = list(dict.fromkeys(model for _, model in found))
    has_curves = isinstance(study.work, Training) and study.full.rounds > 1
    complete = len([runs for runs in found.values() if runs]) == len(study.arms)
    if not has_curves or len(models) > MAX_MODELS or not complete:
        return
    shown = [(curve, task) for curve in curves(study) for task in tasks]
    across = len(tasks) if len(tasks) > 1 else min(len(shown), COLUMNS)
    down = -(-len(shown) // across)
    figure = matplotlib.figure.Figure(figsize=(1 + 4 * across, 3.8 * down), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, (curve, task) in zip(panels, shown, strict=True):
        for model, color in colors(models).items():
            runs = found.get((task, model), {}).values()
            _draw_lines(axes, [points(study, run, curve) for run in runs], model, color)
        axes.set(xlabel=x_axis(study), ylabel=curve.label)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if curve.log and axes.dataLim.y0 > 0:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            wide = high > 10 * low
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(5))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
        if len(tasks) > 1 or len(shown) == 1:
            axes.set_title(task, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    pairs = [axes.get_legend_handles_labels() for axes in panels]  # a task may lack a model
    legend = {label: line for pair in pairs for line, label in zip(*pair, strict=True)}
    panels[0].legend(legend.values(), legend.keys(), frameon=False)
    figure.savefig(path, dpi=120)


def colors(models: Sequence[str]) -> dict[str, str]:
    """Choose a color for each model.

    >>> colors(["GRU", "BN-GRU", "BN everywhere", "LN-GRU"])
    {'GRU': 'C0', 'BN-GRU': 'C2', 'BN everywhere': 'C3', 'LN-GRU': 'C1'}
    """
    found: dict[str, str] = {}
    others = iter(["C3", "C4", "C5", "C6", "C7"])
    for model in models:
        own = COLORS.get(model[:2], "C0")
        found[model] = next(others) if own in found.values() else own
    return found


def curves(study: Study) -> tuple[Curve, ...]:
    """Return the curves to plot: those of the paper's figure, else the monitored score."""
    if study.figure:
        return study.figure.curves
    name = study.work.monitor
    heading, factor, _ = study.scores.get(name, (name, 1, 0))
    label = f"validation {heading.removeprefix('test ')}"
    return (Curve(name, label, factor, log=not study.work.maximize),)


def x_axis(study: Study) -> str:
    """Return "updates" or "epochs", as in the paper's figure or in the study's table."""
    if study.figure:
        return study.figure.x_axis
    heading, *_ = study.scores.get(EPOCHS, ("",))
    return "epochs" if heading.startswith("epochs") else "updates"


def points(study: Study, run: Entry, curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of a run's curve."""
    if curve.score in run["history"]:
        scores = list(enumerate(run["history"][curve.score], 1))
    else:
        scores = [(rounds, found[curve.score]) for rounds, found in run["measured"]]
    rounds, values = np.reshape(scores, (-1, 2)).T
    per_round = run["updates"] / (run["epoch"] if x_axis(study) == "epochs" else 1.0)
    return per_round * rounds, curve.offset + curve.factor * values


def _draw_lines(
    axes: matplotlib.axes.Axes,
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    model: str,
    color: str,
) -> None:
    """Draw a line for each seed of a model, and the mean of several seeds."""
    thin = {"alpha": 0.35, "lw": 0.7} if len(lines) > 1 else {"lw": 1.2, "label": model}
    for x, y in lines:
        axes.plot(x, y, color=color, **thin)
    if len(lines) > 1:
        shared = min(len(x) for x, _ in lines)
        mean = np.mean([y[:shared] for _, y in lines], axis=0)
        axes.plot(lines[0][0][:shared], mean, color=color, lw=1.6, label=model)


def draw_samples(study: Study, results: ResultsFile, path: pathlib.Path) -> None:
    """Plot the samples that the models drew with seed 0 and the chosen learning rate.

    Nothing is written if the models do not draw, or if a model has no results.
    """
    found = chosen_runs(study, study.full, results)
    drawings = study.work.drawings if isinstance(study.work, Training) else None
    if drawings is None or sum(0 in runs for runs in found.values()) < len(study.arms):
        return
    figure = matplotlib.figure.Figure(figsize=(5 * len(found), 2.4), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1)
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, ((_, model), runs) in zip(panels, found.items(), strict=True):
        drawings.draw(axes, runs[0]["drawings"])
        axes.set_title(model, loc="left")
        axes.set_axis_off()
    figure.savefig(path, dpi=120)
