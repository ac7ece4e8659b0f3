import dataclasses
import json
import re

import pytest

from keras_norm.export.report.html_page import render
from keras_norm.export.report.report import Report
from keras_norm.export.results.check_result import (
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare
from tests.export.report.reports import EXPECTED, artifact, report_of


def test_a_report_is_true_when_every_check_passed(passing):
    assert passing
    assert passing.verdict.startswith("PASS: 2 artifacts equal the Keras model within ")
    assert passing.verdict.endswith(", in 2 runners, on 20 samples")


def test_the_repr_is_one_line(passing):
    assert repr(passing) == f"<Report of {passing.model!r}: {passing.verdict}>"


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
    assert "is 0.5, but must be at most max_gap=0.4" in failure.detail


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


def test_each_list_of_numbers_is_one_line_of_the_json(passing):
    text = dataclasses.replace(passing, notes=("of [\n 1,  2]",)).to_json()
    assert re.search(r'"counts": \[ ?\d+, \d+, [^\n]*\]', text)
    assert json.loads(text)["notes"] == ["of [\n 1,  2]"]
