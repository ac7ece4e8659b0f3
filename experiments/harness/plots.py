"""The pictures: curves over training, with the spread over seeds."""

import pathlib
from collections.abc import Iterable

import matplotlib.figure
import matplotlib.ticker
import numpy as np

from experiments.harness.results import Entry, grouped

# A model has the same colour in every picture; those of one norm are alike.
COLOURS = {
    "LSTM": "#444444",
    "GRU": "#444444",
    "SimpleRNN": "#444444",
    "LN-LSTM": "#1f77b4",
    "LN-GRU": "#6baed6",
    "LN-SimpleRNN": "#1f77b4",
    "BN-LSTM": "#d95f02",
    "BN-GRU": "#d95f02",
}
COLUMNS = 3  # of panels


def curves(
    runs: Iterable[Entry], metric: str, path: pathlib.Path, label: str, scale: float = 1.0
) -> None:
    """Draw how a metric went over the epochs: a panel for every task, a colour for every model.

    The line is the mean over the seeds; the band reaches from the lowest to the highest.

    Args:
        runs: entries whose `curves` have the metric.
        metric: its name there.
        path: of the picture.
        label: of its axis, with its unit.
        scale: factor from the values to that unit.
    """
    tasks = grouped(runs)
    columns = min(len(tasks), COLUMNS)
    rows = -(-len(tasks) // columns)
    figure = matplotlib.figure.Figure(figsize=(1 + 4.5 * columns, 3.8 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes in panels[len(tasks) :]:
        axes.remove()
    for axes, (task, models) in zip(panels, tasks.items(), strict=False):
        for model, seeds in models.items():
            values = scale * np.array([run["curves"][metric] for run in seeds])
            epochs = np.arange(1, values.shape[1] + 1)
            colour = COLOURS.get(model)
            axes.plot(epochs, values.mean(axis=0), "o-", ms=3, label=model, color=colour)
            low, high = values.min(axis=0), values.max(axis=0)
            axes.fill_between(epochs, low, high, alpha=0.15, linewidth=0, color=colour)
        axes.set(xlabel="epoch", ylabel=label)
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
        axes.set_title(task, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
