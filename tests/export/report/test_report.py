import dataclasses
import html
import json
import re

import pytest

from keras_norm.export.report.html_page import render
from keras_norm.export.report.report import Report
from keras_norm.export.results.gap_result import OutputGap, TrainInferenceGap
from keras_norm.export.results.output_comparison import ErrorStatistics, OutputResult
from tests.export.compared import compare
from tests.export.report.reports import EXPECTED, artifact, printed, quantized, report_of


def test_a_report_is_true_when_every_check_passed(passing, failing):
    assert passing
    assert passing.verdict.startswith("PASS: 2 artifacts equal the Keras model within ")
    assert passing.verdict.endswith(", in 2 runners, on 20 samples")
    assert repr(passing) == f"<Report of {passing.model!r}: {passing.verdict}>"
    assert not failing
    assert failing.verdict.startswith("FAIL: saved_model, a_model")


FLOAT32 = artifact("saved_model", EXPECTED + 1e-6)
# 1 of 1000 predictions changes.
INT8 = quantized("int8.tflite", predictions=1000, changed=1, rms=0.0305, deviation=0.5)
# No prediction changes; the file runs in two runtimes.
FLOAT16 = [
    quantized(name, path="h", predictions=1000, rms=1e-3, deviation=0.5)
    for name in ("float16.tflite", "float16.tflite (OpenVINO)")
]


ERROR = "6.1% of the output's standard deviation, largest error 0.25"


@pytest.mark.parametrize(
    ("artifacts", "headline"),
    [
        (
            [INT8],
            ("int8.tflite changes 1 of 1000 predictions (99.9% equal)", ERROR),
        ),
        (
            [FLOAT32, *FLOAT16, INT8],
            (
                "2 quantized files change up to 1 of 1000 predictions (99.9% equal)",
                f"up to {ERROR}",
                "1 artifact equals the Keras model within 1e-06",
            ),
        ),
        (
            [quantized("int8.tflite", rms=0.0305, deviation=0.5)],
            ("int8.tflite differs from the Keras model", ERROR),
        ),
        (
            [quantized("int8.tflite", predictions=1_000_000, changed=1)],
            ("int8.tflite changes 1 of 1000000 predictions (99.9% equal)",),
        ),
        (
            [quantized("a", predictions=1000), quantized("b", predictions=1000)],
            ("2 quantized files change 0 of 1000 predictions (100% equal)",),
        ),
    ],
    ids=["8 bits", "float32 and quantized", "numbers", "almost equal", "no change"],
)
def test_a_quantized_file_is_approximate_and_not_equal(artifacts, headline):
    """The share of equal predictions is rounded down: 100% means that none changed."""
    report = report_of(*artifacts)
    assert report, "a file within its limit passes, so that tests can use the report"
    assert report.status == "approximate"
    starts = ("APPROXIMATE: ", "Error on 20 samples: root mean square ", "")
    parts = zip(starts, headline, strict=False)
    assert report.headline == tuple(map("".join, parts))
    assert report.verdict == ". ".join(report.headline)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ((1, 3), "changes 3 of 10 predictions of output 'b' (70% equal)"),
        ((0, 0), "changes 0 of 10 predictions (100% equal)"),
    ],
)
def test_the_headline_names_the_output_whose_predictions_change_most(changes, text):
    outputs = [
        dataclasses.replace(INT8.outputs[0], output=name, errors=ErrorStatistics(10, changed))
        for name, changed in zip("ab", changes, strict=True)
    ]
    report = report_of(dataclasses.replace(INT8, outputs=tuple(outputs)))
    assert text in report.verdict


@pytest.mark.parametrize(
    ("artifacts", "verdict"),
    [
        ([FLOAT32, artifact("int8.tflite", EXPECTED + 0.25, quantized=True)], "int8.tflite"),
        # A file that fails in two runners is named once.
        ([artifact(n, EXPECTED + 1.0, path=n[0]) for n in ("m", "m (C API)", "other")], "m, other"),
    ],
)
def test_a_file_that_fails_makes_the_report_fail(artifacts, verdict):
    report = report_of(*artifacts)
    assert not report
    assert (report.status, report.verdict) == ("fail", f"FAIL: {verdict}")


@pytest.mark.parametrize("view", [printed, Report._repr_html_, render, Report.to_json])
def test_every_view_has_the_changed_predictions_and_the_error_of_a_quantized_file(view):
    text = re.sub("<[^>]*>", " ", view(report_of(FLOAT32, INT8)).replace("<wbr>", ""))
    text = " ".join(html.unescape(text).split())
    assert "APPROXIMATE: int8.tflite changes 1 of 1000 predictions (99.9% equal)" in text
    if view is Report.to_json:
        plain = json.loads(text)
        assert plain["status"] == "approximate"
        errors = plain["artifacts"][1]["outputs"][0]["errors"]
        assert (errors["changed"], errors["predictions"]) == (1, 1000)
        assert (errors["rms_share"], errors["equal_share"]) == (0.061, 0.999)
        assert errors["worst"]["actual"] == 0.25
    else:
        row = "int8.tflite sequence 1 of 1000 6.1% "
        assert row in text
        assert "sample 1, timestep 0, unit 2" in text.partition(row)[2]
        assert text.index("saved_model sequence") < text.index(row), "float32 files have a table"
    if view is render:
        assert "a single value may exceed the limit" in text


@pytest.mark.parametrize(("result", "status"), [(FLOAT32, "pass"), (INT8, "approximate")])
def test_a_quantized_file_has_another_color_than_an_equal_file(result, status):
    for page in (render(report_of(result)), report_of(result)._repr_html_()):
        assert re.findall('class="verdict ([a-z]*)"', page) == [status]


def test_every_failure_has_its_reason(failing):
    assert [(f.subject, f.check) for f in failing.failures] == [
        ("saved_model", "values"),
        ("a_model_with_quite_a_long_name.tflite", "values"),
        ("broken.tflite", "run"),
        ("flex.tflite", "ops"),
    ]


@pytest.mark.parametrize(
    ("gap", "detail"),
    [
        (("ok", "", (OutputGap("y", 0.5, 0.1, 1.0),)), "is 0.5, but must be at most max_gap=0.4"),
        (("not measured", "no config"), "was not measured"),
    ],
)
def test_an_exceeded_or_unmeasured_max_gap_is_a_failure(gap, detail):
    gap = TrainInferenceGap(*gap, max_gap=0.4)
    (failure,) = report_of(artifact("m", EXPECTED), gap=gap).failures
    assert failure.check == "gap"
    assert detail in failure.detail


@pytest.mark.parametrize(
    ("actual", "worst"),
    [
        ((EXPECTED + 0.1, EXPECTED + 0.3, EXPECTED + 0.2), 1),
        ((EXPECTED, EXPECTED[0], EXPECTED + 9.0), 1),  # a wrong shape is worse
    ],
)
def test_the_worst_case_has_a_problem_or_needs_the_largest_tolerance(actual, worst):
    results = [compare({"y": EXPECTED}, {"y": y}, 0.0, 1.0)[0] for y in actual]
    assert OutputResult("y", tuple("abc"), tuple(results), None).worst_case == worst


def test_json_has_finite_numbers_and_text(failing):
    def refuse(name):
        pytest.fail(f"{name} in JSON")

    assert failing.artifacts[1].atol_needed is None  # of NaN
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
