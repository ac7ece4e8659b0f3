"""Curves of trained runs, and samples of generative models, are plotted."""

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.harness import plots, study
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import first_runs, later_runs
from experiments.harness.study import Curve, Drawings
from tests.experiments import toy_study


@pytest.fixture
def results(tmp_path):
    results = ResultsFile(tmp_path / "made.json", toy_study.STUDY, toy_study.SIZE)
    for arm in toy_study.STUDY.arms:
        for number, run in enumerate(first_runs(arm, toy_study.SIZE)):
            results.add(run, toy_study.entry(1.0 + number))
    for run in later_runs(toy_study.STUDY, toy_study.STUDY.arms, toy_study.SIZE, results):
        results.add(run, toy_study.entry(1.0))
    return results


CURVES = (Curve("error", "rightness, %", -100, 100), Curve("error", "error", log=True))


@pytest.mark.parametrize(("axis", "first"), [("epochs", 0.5), ("updates", 3.0)])
def test_a_figure_of_the_paper_keeps_its_axes(results, tmp_path, monkeypatch, axis, first):
    paper = study.PaperFigure(1, "", "", axis, CURVES)
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, dpi: drawn.append(self))
    plots.draw_curves(
        dataclasses.replace(toy_study.STUDY, figure=paper), results, tmp_path / "made.png"
    )
    labels = [(axes.get_xlabel(), axes.get_ylabel()) for axes in drawn[0].axes]
    assert labels == [(axis, "rightness, %"), (axis, "error")]
    assert [axes.get_yscale() for axes in drawn[0].axes] == ["linear", "log"]
    lines = [axes.lines[0].get_xydata() for axes in drawn[0].axes]
    np.testing.assert_allclose(
        lines, [[[first, -100], [2 * first, 0]], [[first, 2], [2 * first, 1]]]
    )


def test_the_mean_of_the_seeds_ends_with_the_shortest_run(results, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, dpi: drawn.append(self))
    for entry in results.entries:
        entry["history"] = {"error": [2.0, 1.0, 0.5] if entry["seed"] else [4.0, 3.0]}
    plots.draw_curves(toy_study.STUDY, results, tmp_path / "made.png")
    *seeds, mean = drawn[0].axes[0].lines[:3]
    assert [len(line.get_xdata()) for line in seeds] == [2, 3]
    np.testing.assert_allclose(mean.get_xydata(), [[3, 3.0], [6, 2.0]])
    assert mean.get_label() == "none"


def test_the_samples_of_the_chosen_learning_rate_are_plotted(results, tmp_path):
    drawn = []
    drawings = Drawings(lambda *_: [], lambda axes, numbers: drawn.append(numbers), "Numbers")
    work = dataclasses.replace(toy_study.STUDY.work, drawings=drawings)
    for e in results.entries:
        e["drawings"] = [e["model"], e["rate"]]
    plots.draw_samples(dataclasses.replace(toy_study.STUDY, work=work), results, tmp_path / "d.png")
    assert drawn == [["none", 1e-3], ["BN", 1e-3]]
    assert (tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"
