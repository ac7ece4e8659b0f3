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
from keras_norm.export.results.check_result import (
    Finding,
    MetricGap,
    TrainInferenceGap,
)
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare
from tests.export.report.reports import EXPECTED, artifact, report_of


def test_the_page_needs_no_other_file(failing):
    page = render(failing)
    assert not re.search(r'(src|href|url)\s*[=(]\s*["\']?\s*(https?:|//|file:)', page)
    assert "<link" not in page
    assert "<script" not in page
    assert "://" not in page


def test_the_page_is_written_to_a_file(passing, tmp_path):
    passing.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == render(passing)


def test_the_page_begins_with_the_verdict_and_the_failures(failing):
    page = html.unescape(render(failing))
    first = page.index("<table")
    assert page.index(failing.verdict) < page.index(failing.failures[0].detail) < first


def test_the_page_escapes_html(failing):
    page = render(failing)
    assert "it went away &lt;b&gt;" in page
    assert "it went away <b>" not in page


def test_the_advice_follows_the_verdict(passing):
    findings = tuple(Finding(name, "is far", "recalibrate") for name in ("m", "m (C API)"))
    page = render(dataclasses.replace(passing, findings=findings))
    assert page.index(passing.verdict) < page.index("recalibrate") < page.index("<table")
    assert page.count("recalibrate") == 1
    assert "m, m (C API)" in page


def test_runners_with_equal_results_share_a_row_and_a_map():
    wrong = EXPECTED + 0.25
    runners = [artifact("saved_model", wrong), artifact("saved_model (C API)", wrong)]
    page = render(report_of(*runners, artifact("model.tflite", EXPECTED + 0.5)))
    assert page.count('<figure class="drawing">') == 2
    assert page.count('class="word fail"') == 2


def test_equal_outputs_have_no_map(passing):
    assert render(passing).count('<figure class="drawing">') == 1  # the TFLite file's


def test_the_output_that_uses_most_of_its_tolerance_comes_first():
    report = report_of(
        artifact("equal", EXPECTED),
        artifact("near", EXPECTED + 1e-7),
        artifact("far", EXPECTED + 1.0),
        artifact("nearer", EXPECTED + 1e-8),
    )
    assert [row.names for row in output_rows(report)] == [
        ("far",),
        ("near",),
        ("nearer",),
        ("equal",),
    ]


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
    page = render(report)
    page = page.replace("\N{MULTIPLICATION SIGN}", "x")
    for text in (
        "2.5 MB",
        "2.5 x the weights",
        "0.5 x Keras",
        "2 x Keras",
        "MUL x 12",
        "13 in all",
    ):
        assert text in page
    assert page.count("x Keras") == 4, "the Keras model is not compared with itself"
    assert page.count("<summary>Operations in saved_model, model.tflite") == 1


def test_metrics_on_labels_are_on_the_page(passing):
    with_metrics = dataclasses.replace(
        passing,
        keras=dataclasses.replace(passing.keras, metrics=(Metric("y", "accuracy", 0.91234),)),
        gap=dataclasses.replace(passing.gap, metrics=(MetricGap("y", "accuracy", 0.91234, 0.95),)),
    )
    page = render(with_metrics)
    for text in ("y: accuracy", "0.9123", "Keras model in training mode", "0.95"):
        assert text in page


def test_the_page_shows_the_number_of_updates(passing):
    layer = dataclasses.replace(passing.gap.layers[0], updates=(7, 9, 3))
    gap = dataclasses.replace(passing.gap, layers=(layer,))
    assert "3-9" in render(dataclasses.replace(passing, gap=gap))


def test_layers_with_statistics_of_every_timestep_have_a_strip(passing):
    assert render(passing).count('class="strip"') == 1


def test_the_page_and_the_json_stay_small_for_large_outputs():
    expected = np.zeros((1, 3000, 500))
    actual = np.random.default_rng(0).normal(size=expected.shape)
    (comparison,) = compare({"y": expected}, {"y": actual}, 1e-5, 1e-5)
    output = OutputResult("y", ("batch 1",), (comparison,), profile_differences(expected, actual))
    report = report_of(artifact("m", EXPECTED, outputs=(output,)))
    assert len(render(report)) < 100_000
    assert len(report.to_json()) < 12 * CELLS**2


def test_a_report_without_outputs_has_a_page():
    report = report_of(
        artifact("broken", EXPECTED, outputs=(), properties=(), error="gone"),
        gap=TrainInferenceGap("not measured", "no config"),
    )
    assert "gone" in render(report)


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
