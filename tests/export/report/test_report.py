import dataclasses
import html
import io
import json
import re
import sys

import keras
import numpy as np
import pytest
import rich.console

from keras_norm.export import check, export_saved_model
from keras_norm.export.compare.output_differences import CELLS, profile_differences
from keras_norm.export.report.html_page import percent, render, value_rows
from keras_norm.export.report.report import Report
from keras_norm.export.report.tables import breakable
from keras_norm.export.results.artifact_result import ArtifactResult, Cost, Metric, PropertyResult
from keras_norm.export.results.check_result import (
    Finding,
    LayerStatistics,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare

RNG = np.random.default_rng(0)
EXPECTED = np.zeros((2, 3, 4))


def artifact(name, actual, **changes):
    (comparison,) = compare({"sequence": EXPECTED}, {"sequence": actual}, 1e-5, 1e-5)
    output = OutputResult(
        "sequence", ("batch 2, length 3",), (comparison,), profile_differences(EXPECTED, actual)
    )
    properties = (PropertyResult("row independence", "pass", ""), PropertyResult("ops", "pass", ""))
    result = ArtifactResult(name, name, "float32", 1e-5, 1e-5, (output,), properties)
    return dataclasses.replace(result, **changes)


def report_of(*artifacts, gap=None):
    own = ArtifactResult(
        "Keras model",
        "",
        "float32",
        1e-5,
        1e-5,
        properties=(
            PropertyResult("row independence", "pass", ""),
            PropertyResult("right padding", "not applicable", "no input is masked"),
        ),
    )
    layers = (
        LayerStatistics("lstm/cell/kernel_norm", 0.2, 0.1, (0.1, 0.3, None), 2, 3, "beyond"),
        LayerStatistics("bn", 2.5, 0.1, (2.5,), 1, 1, ""),
    )
    gap = gap or TrainInferenceGap(
        "large", "bn is far", (OutputGap("sequence", 0.5, 0.1, 1.0),), layers
    )
    return Report("digits", 20, own, artifacts, gap, ("length 1 left out",), (("keras", "3"),))


@pytest.fixture
def passing():
    return report_of(artifact("saved_model", EXPECTED), artifact("model.tflite", EXPECTED + 1e-6))


@pytest.fixture
def failing():
    nan = EXPECTED.copy()
    nan[1, 2, 3] = np.nan
    return report_of(
        artifact("saved_model", EXPECTED + 0.25),
        artifact("a_model_with_quite_a_long_name.tflite", nan),
        artifact("broken.tflite", EXPECTED, outputs=(), error="it went away <b>"),
        artifact(
            "flex.tflite", EXPECTED, properties=(PropertyResult("ops", "fail", "ops: FlexRoll"),)
        ),
    )


def printed(report, width=80):
    text = io.StringIO()
    report.print(rich.console.Console(file=text, width=width))
    return text.getvalue()


def test_a_report_is_true_when_every_check_passed(passing):
    assert passing
    assert passing.verdict.startswith("PASS: 2 artifacts equal the Keras model within ")
    assert passing.verdict.endswith(", in 2 runners, on 20 samples")


def test_the_verdict_names_the_difference_of_8_bit_files_separately():
    (output,) = artifact("dynamic.tflite", EXPECTED + 0.25).outputs
    judged = [
        dataclasses.replace(c, passed=True, rms=0.1, atol=0.5, used=0.2) for c in output.comparisons
    ]
    output = dataclasses.replace(output, comparisons=tuple(judged))
    report = report_of(
        artifact("model.tflite", EXPECTED + 1e-6),
        artifact("dynamic.tflite", EXPECTED, outputs=(output,)),
    )
    assert " within 0.25 in 8 bits, in 2 runners" in report.verdict
    assert "a single value may exceed the limit" in render(report)


def test_a_notebook_shows_the_tables(passing):
    assert repr(passing) == f"<Report of {passing.model!r}: {passing.verdict}>"
    page = passing._repr_html_()
    assert page.startswith("<pre")
    assert passing.verdict[:20] in page


def test_a_report_is_false_when_any_check_failed(failing):
    assert not failing
    assert failing.verdict.startswith("FAIL: saved_model, a_model")


def test_a_file_that_fails_in_two_runners_is_named_once():
    runners = [artifact(name, EXPECTED + 1.0, path="m") for name in ("m", "m (C API)")]
    assert report_of(*runners, artifact("other", EXPECTED + 1.0)).verdict == "FAIL: m, other"


def test_every_failure_has_its_reason(failing):
    assert [(f.subject, f.check) for f in failing.failures] == [
        ("saved_model", "values"),
        ("a_model_with_quite_a_long_name.tflite", "values"),
        ("broken.tflite", "run"),
        ("flex.tflite", "ops"),
    ]


def test_a_large_gap_is_a_warning_and_no_failure(passing):
    assert passing.warnings == ("train/inference gap large: bn is far", "length 1 left out")


def test_an_exceeded_max_gap_is_a_failure():
    gap = TrainInferenceGap("ok", "", (OutputGap("y", 0.5, 0.1, 1.0),), max_gap=0.4)
    (failure,) = report_of(artifact("m", EXPECTED), gap=gap).failures
    assert failure.check == "gap"
    assert "is 0.5, max_gap is 0.4" in failure.detail


def test_an_unmeasured_gap_fails_max_gap():
    gap = TrainInferenceGap("not measured", "no config", max_gap=0.4)
    (failure,) = report_of(artifact("m", EXPECTED), gap=gap).failures
    assert "was not measured" in failure.detail


def test_the_worst_case_needs_the_largest_tolerance():
    results = [compare({"y": EXPECTED}, {"y": EXPECTED + d}, 0.0, 1.0)[0] for d in (0.1, 0.3, 0.2)]
    assert OutputResult("y", ("a", "b", "c"), tuple(results), None).worst_case == 1


def test_a_case_with_a_problem_is_the_worst_case():
    shapes = compare({"y": EXPECTED}, {"y": EXPECTED[0]}, 0.0, 1.0)[0]
    numbers = compare({"y": EXPECTED}, {"y": EXPECTED + 9.0}, 0.0, 1.0)[0]
    assert OutputResult("y", ("a", "b"), (shapes, numbers), None).worst_case == 0


def test_json_has_finite_numbers_and_text(failing):
    def refuse(name):
        pytest.fail(f"{name} in JSON")

    plain = json.loads(failing.to_json(), parse_constant=refuse)
    assert plain["passed"] is False
    assert plain["artifacts"][1]["outputs"][0]["max_abs"] == "NaN"
    assert plain["artifacts"][0]["outputs"][0]["max_abs"] == 0.25
    assert plain["failures"][2]["detail"] == "it went away <b>"


def test_a_report_is_read_from_its_json(failing):
    again = Report.from_json(failing.to_json())
    assert repr(again) == repr(failing)
    assert again.to_json() == failing.to_json()
    assert again.artifacts[0].outputs == failing.artifacts[0].outputs


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no JSON", "Expecting value"),
        ("null", "None is not a dict"),
        ("{}", "it has no 'model'"),
        ('{"model": 1}', "1 is not a str"),
    ],
)
def test_text_of_something_else_raises(text, why):
    with pytest.raises(ValueError, match=f"is not a report that to_json wrote: {why}"):
        Report.from_json(text)


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_every_verdict_in_full(failing, width):
    text = printed(failing, width)
    rows = [line.split()[0] for line in text.splitlines() if re.match(r" ?(pass|fail) ", line)]
    assert rows == ["fail", "fail", "fail", "pass"]
    assert text.startswith("FAIL")
    assert "…" not in text


def test_no_line_is_wider_than_the_terminal(failing):
    assert max(map(len, printed(failing).splitlines())) <= 80


def test_brackets_in_a_name_are_printed_literally():
    assert "[bold]x" in printed(report_of(artifact("[bold]x", EXPECTED)))


def test_the_terminal_shows_why_a_property_does_not_apply(passing):
    assert "no input is masked" in printed(passing)


def test_the_terminal_shows_per_timestep_statistics(passing):
    assert "2 of 3" in printed(passing)


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
    assert [row.names for row in value_rows(report)] == [
        ("far",),
        ("near",),
        ("nearer",),
        ("equal",),
    ]


def test_all_outputs_of_an_artifact_that_are_equal_share_a_row():
    (output,) = artifact("m", EXPECTED).outputs
    outputs = tuple(dataclasses.replace(output, output=name) for name in ("a", "b", "c"))
    (row,) = value_rows(report_of(artifact("m", EXPECTED, outputs=outputs)))
    assert row.outputs == ("a", "b", "c")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "-"),
        (0.0, "0%"),
        (1e-5, "under 0.1%"),
        (0.0314, "3.1%"),
        (0.999, "100%"),
        (2.5, "250%"),
        (25.0, "25 times"),
        (np.inf, "over 10,000 times"),
    ],
)
def test_shares_are_readable(share, text):
    assert percent(share) == text


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


def test_each_list_of_numbers_is_one_line_of_the_json(passing):
    text = dataclasses.replace(passing, notes=("of [\n 1,  2]",)).to_json()
    assert re.search(r'"counts": \[ ?\d+, \d+, [^\n]*\]', text)
    assert json.loads(text)["notes"] == ["of [\n 1,  2]"]


def test_a_report_without_outputs_has_a_page():
    report = report_of(
        artifact("broken", EXPECTED, outputs=(), properties=(), error="gone"),
        gap=TrainInferenceGap("not measured", "no config"),
    )
    assert "gone" in render(report)


def test_the_page_of_a_model_without_weights_has_no_relative_sizes(tmp_path):
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.GlobalAveragePooling1D()])
    path = export_saved_model(model, tmp_path / "m", version=1)
    page = render(check(model, path, RNG.normal(size=(4, 5, 3)).astype("float32")))
    assert "the weights</small>" not in page


@pytest.mark.parametrize("module", ["jinja2", "PIL"])
def test_a_missing_package_names_the_extra_and_writes_nothing(
    passing, tmp_path, monkeypatch, module
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{module}.*\.\[report\]"):
        passing.to_html(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_name_cannot_add_a_line_to_a_printed_report(failing):
    name = "a\nPASS: forged\x1b[31m\u202e[red]"
    layers = tuple(dataclasses.replace(layer, path=name, note=name) for layer in failing.gap.layers)
    artifacts = (artifact(name, EXPECTED + 0.25), artifact(name, EXPECTED, outputs=(), error=name))
    gap = dataclasses.replace(failing.gap, layers=layers, reason=name)
    text = printed(dataclasses.replace(failing, artifacts=artifacts, gap=gap, notes=(name,)), 300)
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert not any(line.lstrip().startswith("PASS") for line in text.splitlines())
    assert r"a\nPASS: forged\x1b[31m\u202e[red]" in text


def test_a_path_breaks_after_its_slashes_only():
    path = "bidirectional_2/backward_norm_simple_rnn_1/norm_simple_rnn_cell_1/kernel_norm"
    lines = breakable(path, 42).plain.split("\n")
    assert "".join(lines) == path
    assert all(len(line) <= 42 for line in lines)
    assert lines[-1].endswith("kernel_norm")
    assert breakable("a_name_of_its_own_that_is_far_too_long/gamma", 10).plain.split("\n") == [
        "a_name_of_its_own_that_is_far_too_long/",
        "gamma",
    ]
