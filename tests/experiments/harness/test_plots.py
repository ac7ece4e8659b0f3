"""Curves of trained runs, and samples of generative models, are plotted."""

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments.harness import plots, study
from experiments.harness.results_file import ResultsFile
from experiments.harness.runs import first_runs, later_runs
from experiments.harness.study import Curve, Drawings, Measurement
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


def test_the_curves_of_finished_runs_are_written(results, tmp_path):
    plots.draw_curves(toy_study.STUDY, results, tmp_path / "made.png")
    assert (tmp_path / "made.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(("error", "scale"), [(0.5, "log"), (-0.5, "linear")])
def test_positive_errors_have_a_logarithmic_axis(results, tmp_path, error, scale, monkeypatch):
    figures = []
    figure = plots.matplotlib.figure.Figure
    monkeypatch.setattr(
        plots.matplotlib.figure, "Figure", lambda **k: figures.append(figure(**k)) or figures[0]
    )
    for e in results.entries:
        e["history"] = {"error": [2.0, error]}
    plots.draw_curves(toy_study.STUDY, results, tmp_path / "made.png")
    assert figures[0].axes[0].get_yscale() == scale


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


def test_scores_measured_during_training_are_plotted_at_their_rounds(
    results, tmp_path, monkeypatch
):
    work = dataclasses.replace(toy_study.STUDY.work, measure=lambda *_: {}, every=2)
    paper = study.PaperFigure(1, "", "", "updates", (Curve("weight", "weight, %", 100),))
    for entry in results.entries:
        entry["measured"] = [[2, {"weight": 0.5}], [4, {"weight": 0.7}]]
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, dpi: drawn.append(self))
    drawing = dataclasses.replace(toy_study.STUDY, work=work, figure=paper)
    plots.draw_curves(drawing, results, tmp_path / "made.png")
    (axes,) = drawn[0].axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[6, 50], [12, 70]])


@pytest.mark.parametrize(
    ("heading", "axis", "first"),
    [("epochs to 1.5", "epochs", 0.5), ("updates to 1.5", "updates", 3.0)],
)
def test_the_x_axis_has_the_unit_of_the_table(results, tmp_path, monkeypatch, heading, axis, first):
    scores = {"error": ("error", 1, 3), "epochs": (heading, 1, 2)}
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, dpi: drawn.append(self))
    plots.draw_curves(
        dataclasses.replace(toy_study.STUDY, scores=scores), results, tmp_path / "made.png"
    )
    (axes,) = drawn[0].axes
    assert axes.get_xlabel() == axis
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [first, 2 * first])


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


def test_a_study_without_training_has_no_curves(results, tmp_path):
    work = Measurement(lambda arm, seed, data: {})
    plots.draw_curves(
        dataclasses.replace(toy_study.STUDY, work=work), results, tmp_path / "made.png"
    )
    assert not (tmp_path / "made.png").exists()


def test_a_study_with_a_model_without_results_has_no_curves(results, tmp_path):
    results.entries[:] = [e for e in results.entries if e["model"] != "BN"]
    plots.draw_curves(toy_study.STUDY, results, tmp_path / "made.png")
    assert not (tmp_path / "made.png").exists()


def test_the_samples_of_the_chosen_learning_rate_are_plotted(results, tmp_path):
    drawn = []
    drawings = Drawings(lambda *_: [], lambda axes, numbers: drawn.append(numbers), "Numbers")
    work = dataclasses.replace(toy_study.STUDY.work, drawings=drawings)
    for e in results.entries:
        e["drawings"] = [e["model"], e["rate"]]
    plots.draw_samples(dataclasses.replace(toy_study.STUDY, work=work), results, tmp_path / "d.png")
    assert drawn == [["none", 1e-3], ["BN", 1e-3]]
    assert (tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"


def test_models_that_draw_nothing_have_no_plot(results, tmp_path):
    plots.draw_samples(toy_study.STUDY, results, tmp_path / "d.png")
    assert not (tmp_path / "d.png").exists()
