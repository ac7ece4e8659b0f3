"""The pictures of a study.

Its curves: a colour a model. A thin line is a seed, a thick one their mean as long as all go on. A
panel is the validation of a task; or, where a study asks about a figure of the paper, a panel of
that, over the paper's axes. What its models drew, a panel a model.
"""

import pathlib
from collections.abc import Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from experiments.harness.results_file import Entry, ResultsFile
from experiments.harness.run_scores import EPOCHS
from experiments.harness.runs import compared
from experiments.harness.study import Curve, Study, Training

MOST = 6  # models that a panel can show
COLOURS = {"LN": "C1", "BN": "C2"}  # of models whose names begin so, in every picture the same
ACROSS = 3  # panels of a task in a row


def draw(study: Study, results: ResultsFile, path: pathlib.Path) -> None:
    """Draw the runs that count: a line for every seed, until its validation stopped improving.

    Nothing is drawn of a study that trains nothing, has too many models or one without a run.
    """
    found = compared(study, study.full, results)
    tasks = list(dict.fromkeys(task for task, _ in found))
    models = list(dict.fromkeys(model for _, model in found))
    drawn = isinstance(study.work, Training) and study.full.rounds > 1 and len(models) <= MOST
    if not drawn or len([runs for runs in found.values() if runs]) < len(study.arms):
        return
    shown = [(curve, task) for curve in curves(study) for task in tasks]
    across = len(tasks) if len(tasks) > 1 else min(len(shown), ACROSS)
    down = -(-len(shown) // across)
    figure = matplotlib.figure.Figure(figsize=(1 + 4 * across, 3.8 * down), layout="constrained")
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, (curve, task) in zip(panels, shown, strict=True):
        for model, colour in colours(models).items():
            runs = found.get((task, model), {}).values()
            _lines(axes, [points(study, run, curve) for run in runs], model, colour)
        axes.set(xlabel=along(study), ylabel=curve.label)
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
    both = [axes.get_legend_handles_labels() for axes in panels]  # colours are the same in all
    legend = {label: line for pair in both for line, label in zip(*pair, strict=True)}
    panels[0].legend(legend.values(), legend.keys(), frameon=False)
    figure.savefig(path, dpi=120)


def colours(models: Sequence[str]) -> dict[str, str]:
    """The colour of each model.

    >>> colours(["GRU", "BN-GRU", "BN everywhere", "LN-GRU"])
    {'GRU': 'C0', 'BN-GRU': 'C2', 'BN everywhere': 'C3', 'LN-GRU': 'C1'}
    """
    found: dict[str, str] = {}
    others = iter(["C3", "C4", "C5", "C6", "C7"])
    for model in models:
        own = COLOURS.get(model[:2], "C0")
        found[model] = next(others) if own in found.values() else own
    return found


def curves(study: Study) -> tuple[Curve, ...]:
    """What is drawn of a study: as in the paper's figure, else the validation."""
    if study.figure:
        return study.figure.curves
    name = study.work.monitor
    heading, factor, _ = study.scores.get(name, (name, 1, 0))
    label = f"validation {heading.removeprefix('test ')}"
    return (Curve(name, label, factor, log=not study.work.higher),)


def along(study: Study) -> str:
    """What curves are drawn over: as in the paper's figure, else as a level's time is told."""
    if study.figure:
        return study.figure.along
    heading, *_ = study.scores.get(EPOCHS, ("",))
    return "epochs" if heading.startswith("epochs") else "updates"


def points(study: Study, run: Entry, curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """The curve of a run."""
    if curve.score in run["history"]:
        told = list(enumerate(run["history"][curve.score], 1))
    else:
        told = [(after, found[curve.score]) for after, found in run["measured"]]
    rounds, values = np.reshape(told, (-1, 2)).T
    unit = run["updates"] / (run["epoch"] if along(study) == "epochs" else 1.0)  # of a round
    return unit * rounds, curve.plus + curve.factor * values


def _lines(
    axes: matplotlib.axes.Axes,
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    model: str,
    colour: str,
) -> None:
    """A model's seeds, and their mean where there are several."""
    thin = {"alpha": 0.35, "lw": 0.7} if len(lines) > 1 else {"lw": 1.2, "label": model}
    for x, y in lines:
        axes.plot(x, y, color=colour, **thin)
    if len(lines) > 1:
        shared = min(len(x) for x, _ in lines)
        mean = np.mean([y[:shared] for _, y in lines], axis=0)
        axes.plot(lines[0][0][:shared], mean, color=colour, lw=1.6, label=model)


def draw_drawings(study: Study, results: ResultsFile, path: pathlib.Path) -> None:
    """Draw what the models of seed 0 drew, with the learning rate that was chosen.

    Nothing is drawn of a study whose models do not draw, or of whose models one has not ended.
    """
    found = compared(study, study.full, results)
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
