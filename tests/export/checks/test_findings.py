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
from keras_norm.export.results.check_result import (
    LayerStatistics,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare

OWN = ArtifactResult("Keras model", "", "float32", 1e-5, None)
FILE = ArtifactResult("model.tflite", "model.tflite", "float32", 1e-5, None)
GOOD = LayerStatistics("bn", 0.01, 0.01, (0.01,), 1, 1, "")


def found(*artifacts, own=OWN, layers=(), outputs=(), metrics=(), samples=500, length=None):
    gap = TrainInferenceGap("ok", "", outputs, layers, None, metrics)
    return findings(own, artifacts, gap, samples, length)


def of_layer(samples=500, length=None, **changes):
    return found(layers=(dataclasses.replace(GOOD, **changes),), samples=samples, length=length)


def test_a_passed_check_has_no_findings():
    assert found(FILE, layers=(GOOD,)) == ()


@pytest.mark.parametrize(
    ("changes", "observation", "advice"),
    [
        ({"trained_rows": 0}, "initial values", "recalibrate"),
        ({"distance": 3.0}, "3 standard deviations", "recalibrate"),
        (
            {"updates": (4,), "initial_share": 0.96, "distance": 0.5},
            "after 4 updates",
            "Lower the momentum",
        ),
        (
            {"updates": (4,), "initial_share": 0.0, "distance": 0.5},
            "averages of only 4 batches",
            "Train for more epochs",
        ),
        (
            {"by_row": (0.1,) * 8, "trained_rows": 3, "data_rows": 5},
            "reach 5 timesteps, but training reached only 3 timesteps",
            "Train on sequences as long",
        ),
        (
            {"by_row": (0.1,) * 8, "length": 12},
            "12 timesteps, but the layer has moving statistics for only 8 timesteps",
            "max_timesteps=12",
        ),
        ({"samples": 20}, "only 20 samples", "100 samples or more"),
    ],
)
def test_statistics_that_differ_from_the_data_have_advice(changes, observation, advice):
    (finding,) = of_layer(**changes)
    assert finding.subject == "bn"
    assert observation in finding.observation
    assert advice in finding.advice


@pytest.mark.parametrize("initial_share", [0.0, 0.96])
def test_few_updates_without_a_difference_need_no_advice(initial_share):
    assert of_layer(updates=(4,), initial_share=initial_share) == ()


def test_layers_with_one_problem_are_one_finding():
    layers = [dataclasses.replace(GOOD, path=path, trained_rows=0) for path in "abc"]
    (finding,) = found(layers=tuple(layers))
    assert finding.subject == "a and 2 more"


def test_the_advice_for_a_gap_with_correct_statistics_is_larger_batches():
    (finding,) = found(layers=(GOOD,), outputs=(OutputGap("y", 0.5, 0.1, 1.0),))
    assert "larger batches" in finding.advice


@pytest.mark.parametrize(
    ("metric", "known"),
    [
        (MetricGap("y", "accuracy", 0.5, 0.9), True),
        (MetricGap("y", "accuracy", 0.9, 0.5), False),
        (MetricGap("y", "mean squared error", 2.0, 1.0), True),
        (MetricGap("y", "mean squared error", 1.0, 2.0), False),
    ],
)
def test_the_advice_for_a_metric_that_is_worse_at_inference_is_recalibration(metric, known):
    assert [f.advice.split("(")[0] for f in found(metrics=(metric,))] == [
        "Call recalibrate"
    ] * known


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
    file = dataclasses.replace(FILE, precision="int8", first_difference=first)
    assert "labels=" in found(file)[0].advice


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


GAP = TrainInferenceGap("ok", "", (OutputGap("y", 0.5, 0.1, 10.0),), (GOOD,), max_gap=0.1)


@pytest.mark.parametrize(
    ("gap", "observation", "advice"),
    [
        (GAP, "is 0.5, but must be at most max_gap=0.1", "recalibrate"),
        (
            TrainInferenceGap("not measured", "no config", max_gap=0.1),
            "no config",
            "give no max_gap",
        ),
    ],
)
def test_a_gap_above_max_gap_has_advice(gap, observation, advice):
    (finding,) = findings(OWN, (), gap, 500, None)
    assert observation in finding.observation
    assert advice in finding.advice


def test_the_advice_for_a_gap_with_wrong_statistics_names_the_layer():
    gap = dataclasses.replace(GAP, layers=(dataclasses.replace(GOOD, distance=3.0),))
    (finding,) = findings(OWN, (), gap, 500, None)
    assert finding.subject == "bn"


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
