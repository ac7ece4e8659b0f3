"""The pictures of a study.

Its curves: over the updates, a colour a model. A panel is the validation of a task; or, where a
study measures on the way, a score of those. What its models drew, a panel a model.
"""

import pathlib
from collections.abc import Mapping

import matplotlib.figure
import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from experiments.harness.ledger import Entry, Ledger
from experiments.harness.running import compared
from experiments.harness.study import Study, Training

MOST = 6  # models that a panel can show


def draw(study: Study, ledger: Ledger, path: pathlib.Path) -> None:
    """Draw the runs that count: a line for every seed, until its validation stopped improving.

    Nothing is drawn of a study that trains nothing, has too many models or has not ended.
    """
    found = compared(study, study.full, ledger)
    tasks = list(dict.fromkeys(task for task, _ in found))
    models = list(dict.fromkeys(model for _, model in found))
    drawn = isinstance(study.work, Training) and study.full.rounds > 1 and len(models) <= MOST
    if not drawn or len(ledger.entries) < study.runs:
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
            for number, run in enumerate(runs):
                values = scale * np.array(run["history"][name])
                label = model if number == 0 else None
                updates = run["updates"] * np.arange(1, len(values) + 1)
                axes.plot(updates, values, color=f"C{colour}", alpha=0.7, lw=1, label=label)
        axes.set(xlabel="updates", ylabel=f"validation {heading.removeprefix('test ')}")
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
    panels[0].legend(frameon=False)  # the colours are the same in all
    figure.savefig(path, dpi=120)


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
    figure = matplotlib.figure.Figure(figsize=(1 + 2.6 * len(names), 3.4), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        heading, scale, _ = study.scores[name]
        for colour, ((_, model), runs) in enumerate(found.items()):
            for number, run in enumerate(runs.values()):
                rounds, scores = zip(*run["measured"], strict=True)
                updates = run["updates"] * np.array(rounds)
                values = [scale * score[name] for score in scores]
                label = model if number == 0 else None
                axes.plot(updates, values, "o-", color=f"C{colour}", alpha=0.7, lw=1, label=label)
        axes.set(xlabel="updates")
        axes.set_title(heading, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=120)
