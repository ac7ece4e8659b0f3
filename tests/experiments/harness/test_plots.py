"""The arrangement of the panels."""

import dataclasses

import matplotlib.image
import pytest

from experiments.harness import plots
from experiments.harness.results import Run


@pytest.mark.parametrize(("tasks", "rows"), [("ab", 1), ("abc", 1), ("abcd", 2), ("abcdef", 2)])
def test_there_are_at_most_three_panels_in_a_row(tasks, rows, tmp_path):
    runs = [
        {**dataclasses.asdict(Run(task, "GRU", seed)), "curves": {"loss": [1.0, 0.5 - seed]}}
        for task in tasks
        for seed in (0, 1)
    ]
    plots.curves(runs, "loss", tmp_path / "curves.png", "loss")
    height, width, _ = matplotlib.image.imread(tmp_path / "curves.png").shape
    assert width == 150 * (1 + 4.5 * min(len(tasks), 3))
    assert height == 150 * 3.8 * rows
