"""The findings of a check: the causes of errors and wrong outputs, and the advice of properties."""

import dataclasses

import numpy as np
import pytest

from keras_norm.export.checks.properties.masks import Masks
from keras_norm.export.checks.properties.padding import LeftPadding, RightPadding
from keras_norm.export.checks.properties.property_registry import (
    PROPERTIES,
    find_advice,
    property_named,
)
from keras_norm.export.checks.wrong_outputs import VALUES_ADVICE
from keras_norm.export.results.artifact_result import ArtifactResult, FirstDifference
from keras_norm.export.results.check_result import Finding
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare

OWN = ArtifactResult("Keras model", "", "float32", 1e-5, None)
FILE = ArtifactResult("model.tflite", "model.tflite", "float32", 1e-5, None)
OLD = FirstDifference("lstm", "old", stale=True)
SAME = FirstDifference("lstm", "same", stale=False)


def found(*artifacts, own=OWN):
    return find_advice(own, artifacts, ())


def failed(name, detail="an output differs"):
    return property_named(name).failed(detail)


def with_outputs(actual, **changes):
    """Return the result of a file with these outputs, where the Keras model has two zeros."""
    comparisons = compare({"y": np.zeros(2)}, {"y": actual}, 0.0, 0.1)
    outputs = (OutputResult("y", ("batch 2",), comparisons, None),)
    return dataclasses.replace(FILE, outputs=outputs, **changes)


def test_a_passed_check_has_no_findings():
    assert found(FILE) == ()


def test_the_advice_on_the_gap_comes_after_the_findings_on_artifacts():
    advice = Finding("bn", "is far", "recalibrate")
    broken = with_outputs(np.ones(2), error="gone")
    assert [f.observation[:14] for f in find_advice(OWN, [broken], [advice])] == [
        "gone",
        "output 'y' dif",
        "is far",
    ]


@pytest.mark.parametrize(
    ("first", "changes", "observation", "advice"),
    [
        (OLD, {}, "differs is 'lstm'", "Export the model again:"),
        (SAME, {}, "differs is 'lstm'", "Correct the layer 'lstm'"),
        (FirstDifference(None, "a function"), {}, "not known: a function", "; or accept"),
        (FirstDifference("lstm", "no export"), {}, "differs is 'lstm'", "check the new file"),
        (FirstDifference(None, "tiny", False, is_rounding=True), {}, "tiny", "lengths="),
        (FirstDifference("lstm", "", False), {"quantized": True}, "lstm", "give labels= and"),
    ],
)
def test_wrong_values_have_advice_by_their_cause(first, changes, observation, advice):
    (finding,) = found(with_outputs(np.ones(2), first_difference=first, **changes))
    assert observation in finding.observation
    assert advice in finding.advice


def test_outputs_that_cannot_be_compared_have_advice():
    (finding,) = found(with_outputs(np.zeros(3)))
    assert "wrong shape" in finding.observation
    assert finding.advice == VALUES_ADVICE


@pytest.mark.parametrize("name", [p.name for p in PROPERTIES if p.name != "left padding"])
def test_every_failed_property_is_a_finding(name):
    (finding,) = found(dataclasses.replace(FILE, properties=(failed(name),)))
    assert (finding.subject, finding.observation) == ("model.tflite", "an output differs")
    assert finding.advice == property_named(name).advice


@pytest.mark.parametrize("name", ["no NaN", "backends", "constants"])
def test_a_property_that_explains_the_outputs_is_the_only_finding(name):
    """Wrong constants, for example, have no advice to quantize less."""
    file = with_outputs(np.ones(2), first_difference=OLD, quantized=True)
    properties = (failed(name),)
    own, wrong = (dataclasses.replace(result, properties=properties) for result in (OWN, file))
    for findings in (found(wrong), found(file, own=own)):
        assert [finding.advice for finding in findings] == [property_named(name).advice]


def test_wrong_values_and_a_wrong_step_are_one_finding():
    step = (failed("streaming", "a step differs"),)
    (finding,) = found(with_outputs(np.ones(2), properties=step, first_difference=OLD))
    assert "differs is 'lstm'" in finding.observation
    (finding,) = found(with_outputs(np.zeros(2), properties=step))
    assert finding.observation == "a step differs"


@pytest.mark.parametrize(
    ("right", "left", "advice"),
    [
        ("passed", "differs", "Pad on the right"),
        ("failed", "passed", "Pad on the left"),
        ("failed", "differs", "Pad all batches to one length"),
    ],
)
def test_both_sides_of_padding_have_one_advice(right, left, advice):
    known = LeftPadding()
    advised = (known.advice,) if left == "differs" else ()
    sides = getattr(RightPadding(), right)("right"), getattr(known, left)("left", *advised)
    (finding,) = found(own=dataclasses.replace(OWN, properties=sides))
    assert finding.advice.startswith(advice)
    lost = Masks().differs("a mask is lost", "Give the mask")
    (finding,) = found(own=dataclasses.replace(OWN, properties=(lost, *sides)))
    assert finding.advice == "Give the mask"


@pytest.mark.parametrize(("paths", "count"), [("aa", 1), ("ab", 2)])
def test_a_file_that_fails_in_two_runners_is_one_finding(paths, count):
    names = ("a", "a (C API)")
    files = [
        dataclasses.replace(with_outputs(np.ones(2), first_difference=OLD), name=name, path=path)
        for name, path in zip(names, paths, strict=True)
    ]
    assert [finding.subject for finding in found(*files)] == list(names[:count])
