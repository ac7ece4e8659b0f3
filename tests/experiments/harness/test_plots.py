"""Curves of trained runs are plotted on the axes of a figure of the paper."""

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.harness import plots, study
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import first_runs, later_runs
from experiments.harness.study import Curve
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
