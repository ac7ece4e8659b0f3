import dataclasses
import html
import re
import sys

import numpy as np
import pytest

from keras_norm.export.compare.output_differences import CELLS, profile_differences
from keras_norm.export.report.html_page import render
from keras_norm.export.report.output_tables import output_rows
from keras_norm.export.report.tables import rounded_up
from keras_norm.export.results.artifact_result import Cost, Metric, readable_share
from keras_norm.export.results.check_result import Finding
from keras_norm.export.results.gap_result import MetricGap, TrainInferenceGap
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare
from tests.export.report.reports import EXPECTED, artifact, report_of


def test_the_page_needs_no_other_file(failing):
    page = render(failing)
    assert not re.search(r"<link|<script|://|@import", page)
    assert not re.search(r'(src|href|url)\s*[=(]\s*["\']?\s*(//|file:)', page)


def test_the_page_begins_with_the_verdict_the_failures_and_the_advice(failing, tmp_path):
    findings = tuple(Finding(name, "is far", "recalibrate") for name in ("m", "m (C API)"))
    report = dataclasses.replace(failing, findings=findings)
    report.to_html(tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text())
    parts = (report.verdict, report.failures[0].detail, "m, m (C API)", "recalibrate", "<table")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert page.count("recalibrate") == 1


def test_runners_with_equal_results_share_a_row_and_a_map_and_equal_outputs_have_no_map():
    wrong = {"saved_model": 0.25, "saved_model (C API)": 0.25, "model.tflite": 0.5, "equal": 0.0}
    page = render(report_of(*(artifact(name, EXPECTED + d) for name, d in wrong.items())))
    assert page.count('<figure class="drawing">') == 2
    assert page.count('class="word fail"') == 2


def test_the_output_that_uses_most_of_its_tolerance_comes_first():
    errors = {"equal": 0.0, "near": 1e-7, "far": 1.0, "nearer": 1e-8}
    rows = output_rows(report_of(*(artifact(n, EXPECTED + e) for n, e in errors.items())))
    assert [row.names for row in rows] == [("far",), ("near",), ("nearer",), ("equal",)]


def test_all_outputs_of_an_artifact_that_are_equal_share_a_row():
    (output,) = artifact("m", EXPECTED).outputs
    outputs = tuple(dataclasses.replace(output, output=name) for name in ("a", "b", "c"))
    (row,) = output_rows(report_of(artifact("m", EXPECTED, outputs=outputs)))
    assert row.outputs == ("a", "b", "c")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (0.0, "0%"),
        (1e-6, "under 0.001%"),
        (1.5e-5, "0.0015%"),
        (0.0314, "3.1%"),
        (0.999, "100%"),
        (2.5, "250%"),
        (25.0, "25 times"),
        (np.inf, "over 10,000 times"),
    ],
)
def test_shares_are_readable(share, text):
    assert readable_share(share) == text


def test_an_atol_is_rounded_up_so_that_a_check_with_it_passes():
    assert rounded_up(1.01e-5) == "1.1e-05"


def test_sizes_latencies_and_operations_are_on_the_page(passing):
    cost = Cost(2_500_000, ((1, 2.0), (32, 8.0)), (("MUL", 12), ("WHILE", 1)))
    keras = Cost(1_000_000, ((1, 4.0), (32, 4.0)), ())
    report = dataclasses.replace(
        passing,
        keras=dataclasses.replace(passing.keras, cost=keras),
        artifacts=tuple(dataclasses.replace(a, cost=cost) for a in passing.artifacts),
    )
    page = render(report).replace("\N{MULTIPLICATION SIGN}", "x")
    shown = ("2.5 MB", "2.5 x the weights", "0.5 x Keras", "2 x Keras", "MUL x 12", "13 in all")
    assert [text for text in shown if text not in page] == []
    assert page.count("x Keras") == 4, "the Keras model is not compared with itself"
    assert page.count("<summary>Operations in saved_model, model.tflite") == 1


def test_metrics_on_labels_are_on_the_page(passing):
    with_metrics = dataclasses.replace(
        passing,
        keras=dataclasses.replace(passing.keras, metrics=(Metric("y", "accuracy", 0.91234),)),
        gap=dataclasses.replace(passing.gap, metrics=(MetricGap("y", "accuracy", 0.91234, 0.95),)),
    )
    page, shown = render(with_metrics), ("y: accuracy", "0.9123", "in training mode", "0.95")
    assert [text for text in shown if text not in page] == []


def test_layers_show_their_updates_and_a_strip_of_the_statistics_of_every_timestep(passing):
    layer, other = passing.gap.layers
    layers = dataclasses.replace(layer, updates=(7, 9, 3)), other
    gap = dataclasses.replace(passing.gap, layers=layers)
    page = render(dataclasses.replace(passing, gap=gap))
    assert "3-9" in page
    assert page.count('class="strip"') == 1


def test_the_page_and_the_json_stay_small_for_large_outputs():
    expected = np.zeros((1, 3000, 500))
    actual = np.random.default_rng(0).normal(size=expected.shape)
    (comparison,) = compare({"y": expected}, {"y": actual}, 1e-5, 1e-5)
    output = OutputResult("y", ("batch 1",), (comparison,), profile_differences(expected, actual))
    report = report_of(artifact("m", EXPECTED, outputs=(output,)))
    assert len(render(report)) < 100_000
    assert len(report.to_json()) < 12 * CELLS**2


def test_a_report_without_outputs_has_a_page():
    broken = artifact("broken", EXPECTED, outputs=(), properties=(), error="gone")
    assert "gone" in render(report_of(broken, gap=TrainInferenceGap("not measured", "no config")))


def test_the_page_of_a_model_without_weights_has_no_relative_sizes(passing):
    costs = (Cost(0, ((1, 4.0),), ()), Cost(1000, ((1, 2.0),), ()))
    keras, file = (dataclasses.replace(passing.keras, cost=cost, name=str(cost)) for cost in costs)
    assert "the weights</small>" not in render(
        dataclasses.replace(passing, keras=keras, artifacts=(file,))
    )


@pytest.mark.parametrize("module", ["jinja2", "PIL"])
def test_a_missing_package_names_the_extra_and_writes_nothing(
    passing, tmp_path, monkeypatch, module
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{module}.*\.\[report\]"):
        passing.to_html(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
