import dataclasses
import io
import json
import re
import sys

import numpy as np
import pytest
import rich.console

from keras_norm.export.compare import compare, profile
from keras_norm.export.properties import Property
from keras_norm.export.report import ArtifactResult, OutputResult, Report
from keras_norm.export.statistics import LayerStatistics, OutputGap, TrainInferenceGap
from keras_norm.export.terminal import breakable

EXPECTED = np.zeros((2, 3, 4))


def artifact(name, actual, **changes):
    (comparison,) = compare({"sequence": EXPECTED}, {"sequence": actual}, 1e-5, 1e-5)
    output = OutputResult(
        "sequence", ("batch 2, length 3",), (comparison,), profile(EXPECTED, actual)
    )
    properties = (Property("row independence", "pass", ""), Property("ops", "pass", ""))
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
            Property("row independence", "pass", ""),
            Property("padding", "not applicable", "no input is masked"),
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
        artifact("flex.tflite", EXPECTED, properties=(Property("ops", "fail", "ops: FlexRoll"),)),
    )


def printed(report, width=80):
    text = io.StringIO()
    report.print(rich.console.Console(file=text, width=width))
    return text.getvalue()


def test_a_report_is_true_when_every_check_passed(passing):
    assert passing
    assert passing.verdict == "PASS: 2 artefacts equal the Keras model, in 2 runners, on 20 samples"


def test_a_report_is_false_when_any_check_failed(failing):
    assert not failing
    assert failing.verdict.startswith("FAIL: saved_model, a_model")


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


def test_the_case_that_needs_most_represents_an_output():
    results = [compare({"y": EXPECTED}, {"y": EXPECTED + d}, 0.0, 1.0)[0] for d in (0.1, 0.3, 0.2)]
    assert OutputResult("y", ("a", "b", "c"), tuple(results), None).worst_case == 1


def test_a_case_with_a_problem_represents_an_output_before_any_number():
    shapes = compare({"y": EXPECTED}, {"y": EXPECTED[0]}, 0.0, 1.0)[0]
    numbers = compare({"y": EXPECTED}, {"y": EXPECTED + 9.0}, 0.0, 1.0)[0]
    assert OutputResult("y", ("a", "b"), (shapes, numbers), None).worst_case == 0


def test_json_holds_finite_numbers_or_null(failing):
    def refuse(name):
        pytest.fail(f"{name} in JSON")

    plain = json.loads(failing.to_json(), parse_constant=refuse)
    assert plain["passed"] is False
    assert plain["artifacts"][1]["outputs"][0]["max_abs"] is None
    assert plain["artifacts"][0]["outputs"][0]["max_abs"] == 0.25
    assert plain["failures"][2]["detail"] == "it went away <b>"


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_every_verdict_in_full(failing, width):
    text = printed(failing, width)
    rows = [line.split()[0] for line in text.splitlines() if re.match(r" ?(pass|fail) ", line)]
    assert rows == ["fail", "fail", "fail", "pass"]
    assert text.startswith("FAIL")
    assert "…" not in text


def test_no_line_is_wider_than_the_terminal(failing):
    assert max(map(len, printed(failing).splitlines())) <= 80


def test_brackets_in_a_name_are_shown_as_they_are():
    assert "[bold]x" in printed(report_of(artifact("[bold]x", EXPECTED)))


def test_the_terminal_says_why_padding_does_not_apply(passing):
    assert "no input is masked" in printed(passing)


def test_the_terminal_shows_per_timestep_statistics(passing):
    assert "2 of 3" in printed(passing)


def test_the_page_needs_no_other_file(failing, tmp_path):
    failing.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert not re.search(r'(src|href|url)\s*[=(]\s*["\']?\s*(https?:|//|file:)', page)
    assert "<link" not in page
    assert "<script" not in page
    assert "://" not in page


def test_the_page_begins_with_the_verdict(failing, tmp_path):
    failing.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.index(failing.verdict) < page.index("<table")


def test_the_page_escapes_what_it_quotes(failing, tmp_path):
    failing.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "it went away &lt;b&gt;" in page
    assert "it went away <b>" not in page


def test_the_page_plots_differences_and_distances(passing, tmp_path):
    passing.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 3
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_report_in_which_nothing_ran_has_a_page(tmp_path):
    report = report_of(
        artifact("broken", EXPECTED, outputs=(), properties=(), error="gone"),
        gap=TrainInferenceGap("not measured", "no config"),
    )
    report.to_html(tmp_path / "report.html")
    assert "gone" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_package_names_the_extra_and_writes_nothing(
    passing, tmp_path, monkeypatch, package
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}.*keras-norm\[report\]"):
        passing.to_html(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_path_breaks_after_its_slashes_only():
    path = "bidirectional_2/backward_norm_simple_rnn_1/norm_simple_rnn_cell_1/kernel_norm"
    lines = breakable(path, 42).split("\n")
    assert "".join(lines) == path
    assert all(len(line) <= 42 for line in lines)
    assert lines[-1].endswith("kernel_norm")
    assert breakable("a_name_of_its_own_that_is_far_too_long/gamma", 10).split("\n") == [
        "a_name_of_its_own_that_is_far_too_long/",
        "gamma",
    ]
