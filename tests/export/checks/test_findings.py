import dataclasses

import numpy as np
import pytest

from keras_norm.export.checks.findings import VALUES_ADVICE, findings
from keras_norm.export.checks.properties.property_registry import PROPERTIES
from keras_norm.export.results.artifact_result import (
    ArtifactResult,
    FirstDifference,
    PropertyResult,
)
from keras_norm.export.results.check_result import Finding
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare

OWN = ArtifactResult("Keras model", "", "float32", 1e-5, None)
FILE = ArtifactResult("model.tflite", "model.tflite", "float32", 1e-5, None)


def found(*artifacts, own=OWN):
    return findings(own, artifacts, ())


def test_a_passed_check_has_no_findings():
    assert found(FILE) == ()


def test_the_advice_on_the_gap_comes_after_the_findings_on_artifacts():
    advice = Finding("bn", "is far", "recalibrate")
    broken = dataclasses.replace(FILE, error="gone")
    assert [f.subject for f in findings(OWN, [broken], [advice])] == ["model.tflite", "bn"]


@pytest.mark.parametrize(
    ("first", "observation", "advice"),
    [
        (
            FirstDifference("lstm", "old", stale=True),
            "differs is 'lstm'",
            "Export the model again:",
        ),
        (
            FirstDifference("lstm", "same", stale=False),
            "differs is 'lstm'",
            "Correct the layer 'lstm'",
        ),
        (
            FirstDifference(None, "a function"),
            "not known: a function",
            "check the new file; or accept",
        ),
        (FirstDifference("lstm", "no export"), "differs is 'lstm'", "check the new file"),
        (FirstDifference(None, "tiny", False, is_rounding=True), "tiny", "lengths="),
    ],
)
def test_wrong_values_have_advice_by_their_cause(first, observation, advice):
    (finding,) = found(dataclasses.replace(FILE, first_difference=first))
    assert observation in finding.observation
    assert advice in finding.advice


def test_the_advice_for_a_quantized_file_is_to_judge_by_the_metric():
    first = FirstDifference("lstm", "", stale=False)
    file = dataclasses.replace(FILE, precision="int8", quantized=True, first_difference=first)
    assert "labels=" in found(file)[0].advice


def test_wrong_constants_have_no_advice_to_quantize_less():
    first = FirstDifference("lstm", "", stale=False)
    constants = PropertyResult("constants", "fail", "constant 'kernel' differs")
    file = dataclasses.replace(
        FILE, precision="int8", first_difference=first, properties=(constants,)
    )
    assert not any("labels=" in finding.advice for finding in found(file))
    assert any("Export the model again" in finding.advice for finding in found(file))


def test_a_file_with_the_precision_of_its_model_is_not_quantized():
    first = FirstDifference("lstm", "", stale=False)
    own, file = (dataclasses.replace(result, precision="float16") for result in (OWN, FILE))
    file = dataclasses.replace(file, first_difference=first)
    assert "Correct the layer" in found(file, own=own)[0].advice


@pytest.mark.parametrize("name", [p.name for p in PROPERTIES if p.name != "left padding"])
def test_every_failed_property_is_a_finding(name):
    failed = dataclasses.replace(
        FILE, properties=(PropertyResult(name, "fail", "an output differs"),)
    )
    (finding,) = found(failed)
    assert (finding.subject, finding.observation) == ("model.tflite", "an output differs")


def with_outputs(actual, **changes):
    """Return the result of a file with these outputs, where the Keras model has two zeros."""
    comparisons = compare({"y": np.zeros(2)}, {"y": actual}, 0.0, 0.1)
    outputs = (OutputResult("y", ("batch 2",), comparisons, None),)
    return dataclasses.replace(FILE, outputs=outputs, **changes)


def test_wrong_values_and_a_wrong_step_are_one_finding():
    step = PropertyResult("streaming", "fail", "an output differs")
    first = FirstDifference("lstm", "old", stale=True)
    file = with_outputs(np.ones(2), properties=(step,), first_difference=first)
    (finding,) = found(file)
    assert "differs is 'lstm'" in finding.observation


def test_a_wrong_step_with_correct_values_is_a_finding():
    step = PropertyResult("streaming", "fail", "an output differs")
    assert (
        found(with_outputs(np.zeros(2), properties=(step,)))[0].observation == "an output differs"
    )


def test_outputs_that_cannot_be_compared_have_advice():
    (finding,) = found(with_outputs(np.zeros(3)))
    assert "wrong shape" in finding.observation
    assert finding.advice == VALUES_ADVICE


def test_an_artifact_that_does_not_run_has_advice():
    assert found(dataclasses.replace(FILE, error="gone"))[0].observation == "gone"


@pytest.mark.parametrize(
    ("right", "left", "advice"),
    [
        ("pass", "differs", "Pad on the right"),
        ("fail", "pass", "Pad on the left"),
        ("fail", "differs", "Pad all batches to one length"),
    ],
)
def test_both_sides_of_padding_have_one_advice(right, left, advice):
    properties = (
        PropertyResult("right padding", right, "right"),
        PropertyResult("left padding", left, "left"),
    )
    (finding,) = found(own=dataclasses.replace(OWN, properties=properties))
    assert finding.advice.startswith(advice)


def test_a_file_that_fails_in_two_runners_is_one_finding():
    first = FirstDifference("lstm", "old", stale=True)
    files = [dataclasses.replace(FILE, name=n, first_difference=first) for n in ("a", "a (C API)")]
    (finding,) = found(*files)
    assert finding.subject == "a"


def test_two_files_with_one_problem_are_two_findings():
    first = FirstDifference("lstm", "old", stale=True)
    files = [dataclasses.replace(FILE, name=n, path=n, first_difference=first) for n in "ab"]
    assert [finding.subject for finding in found(*files)] == ["a", "b"]
