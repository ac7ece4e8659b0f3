"""Draw the picture of the README from the results of two studies."""

import pathlib

import matplotlib.figure
import numpy as np
from matplotlib.ticker import MaxNLocator

from experiments import characters, digits, shakespeare
from experiments.harness import plots
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import chosen_runs

# Studies with a panel, and the titles of the panels.
PANELS = (
    (digits.STUDY, "Handwritten digits: accuracy, %"),
    (shakespeare.STUDY, "Characters of Shakespeare: bits per character"),
)


def draw(results: pathlib.Path, path: pathlib.Path) -> None:
    """Plot the mean validation score of three models, and a band from the worst to the best seed.

    Every model has its best learning rate. A curve ends where the shortest run ends. The joint
    forms are left out.

    Args:
        results: folder of the results files.
        path: path of the picture.
    """
    figure = matplotlib.figure.Figure(figsize=(9, 3.4), layout="constrained")
    panels = figure.subplots(1, len(PANELS))
    for axes, (study, title) in zip(panels, PANELS, strict=True):
        file = ResultsFile(results / f"{study.name}.json", study, study.full)
        chosen = {model: runs for (_, model), runs in chosen_runs(study, study.full, file).items()}
        found = {model: chosen[model] for model in characters.MODELS}
        (curve,) = plots.curves(study)
        for model, color in plots.colors(list(found)).items():
            lines = [plots.points(study, run, curve) for run in found[model].values()]
            shared = min(len(x) for x, _ in lines)
            x, y = lines[0][0][:shared], np.array([y[:shared] for _, y in lines])
            axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=color, alpha=0.2, lw=0)
            axes.plot(x, y.mean(axis=0), color=color, label=model)
        axes.set_title(title, loc="left", fontsize=11)
        axes.set(xlabel=plots.x_axis(study), xlim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)
