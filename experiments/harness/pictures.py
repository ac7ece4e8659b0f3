"""The pictures of a study.

Its curves: over the epochs where the study tells those, else over the updates; a colour a model. A
thin line is a seed, a thick one their mean as long as all go on. A panel is the validation of a
task; or, where a study measures on the way, a score of those. What its models drew, a panel a
model.
"""

import itertools
import pathlib
from collections.abc import Mapping, Sequence

import matplotlib.axes
import matplotlib.figure
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from experiments.harness.ledger import Entry, Ledger
from experiments.harness.levels import EPOCHS
from experiments.harness.running import compared
from experiments.harness.study import Study, Training

MOST = 6  # models that a panel can show
ACROSS = 4  # panels in a row


def draw(study: Study, ledger: Ledger, path: pathlib.Path) -> None:
    """Draw the runs that count: a line for every seed, until its validation stopped improving.

    Nothing is drawn of a study that trains nothing, has too many models or one without a run.
    """
    found = compared(study, study.full, ledger)
    tasks = list(dict.fromkeys(task for task, _ in found))
    models = list(dict.fromkeys(model for _, model in found))
    drawn = isinstance(study.work, Training) and study.full.rounds > 1 and len(models) <= MOST
    if not drawn or len([runs for runs in found.values() if runs]) < len(study.arms):
        return
    if study.work.every:
        _measured(study, found, path)
        return
    name = study.work.monitor
    heading, scale, _ = study.scores.get(name, (name, 1, 0))
    figure = matplotlib.figure.Figure(figsize=(1 + 4 * len(tasks), 3.8), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(panels, tasks, strict=True):
        for colour, model in enumerate(models):
            runs = found.get((task, model), {}).values()
            lines = []
            for run in runs:
                values = scale * np.array(run["history"][name])
                lines.append((unit(study, run) * np.arange(1, len(values) + 1), values))
            _lines(axes, lines, model, f"C{colour}")
        axes.set(xlabel=along(study), ylabel=f"validation {heading.removeprefix('test ')}")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        if not study.work.higher and axes.dataLim.y0 > 0:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            wide = high > 10 * low
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(5))
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter("{x:g}")
        axes.set_title(task, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    both = [axes.get_legend_handles_labels() for axes in panels]  # colours are the same in all
    legend = {label: line for pair in both for line, label in zip(*pair, strict=True)}
    panels[0].legend(legend.values(), legend.keys(), frameon=False)
    figure.savefig(path, dpi=120)


def along(study: Study) -> str:
    """What curves are drawn over, as the study tells how long a level took."""
    heading, *_ = study.scores.get(EPOCHS, ("",))
    return "epochs" if heading.startswith("epochs") else "updates"


def unit(study: Study, run: Entry) -> float:
    """How much of that a round has."""
    return run["updates"] / (run["epoch"] if along(study) == "epochs" else 1.0)


def _lines(
    axes: matplotlib.axes.Axes,
    lines: Sequence[tuple[np.ndarray, np.ndarray]],
    model: str,
    colour: str,
    marker: str = "",
) -> None:
    """A model's seeds, and their mean where there are several."""
    thin = {"alpha": 0.35, "lw": 0.7} if len(lines) > 1 else {"lw": 1.2, "label": model}
    for x, y in lines:
        axes.plot(x, y, color=colour, marker=marker, ms=3, **thin)
    if len(lines) > 1:
        shared = min(len(x) for x, _ in lines)
        mean = np.mean([y[:shared] for _, y in lines], axis=0)
        axes.plot(
            lines[0][0][:shared], mean, color=colour, marker=marker, ms=3, lw=1.6, label=model
        )


def draw_drawings(study: Study, ledger: Ledger, path: pathlib.Path) -> None:
    """Draw what the models of seed 0 drew, with the learning rate that was chosen.

    Nothing is drawn of a study whose models do not draw, or of whose models one has not ended.
    """
    found = compared(study, study.full, ledger)
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


def _measured(
    study: Study, found: Mapping[tuple[str, str], Mapping[int, Entry]], path: pathlib.Path
) -> None:
    names = [
        name
        for name in study.scores
        if any(name in run["measured"][0][1] for runs in found.values() for run in runs.values())
    ]
    down, across = -(-len(names) // ACROSS), min(len(names), ACROSS)
    size = (1 + 2.6 * across, 0.8 + 2.6 * down)
    figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).flat
    for axes, name in itertools.zip_longest(panels, names):
        if name is None:
            axes.set_axis_off()
            continue
        heading, scale, _ = study.scores[name]
        for colour, ((_, model), runs) in enumerate(found.items()):
            lines = []
            for run in runs.values():
                rounds, scores = zip(*run["measured"], strict=True)
                values = scale * np.array([score[name] for score in scores])
                lines.append((unit(study, run) * np.array(rounds), values))
            _lines(axes, lines, model, f"C{colour}", marker="o")
        axes.set(xlabel=along(study))
        axes.set_title(heading, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False)
    figure.savefig(path, dpi=120)
