"""The rule that decides whether the train/inference gap needs advice."""

import dataclasses

import pytest

from keras_norm.export.checks.gap_findings import advise_on_gap, describe_gap
from keras_norm.export.results.gap_result import (
    LayerStatistics,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)

GOOD = LayerStatistics("bn", 0.01, 0.01, (0.01,), 1, 1, "")
FAR = dataclasses.replace(GOOD, distance=3.0)
EQUAL, SMALL, DIFFERS = (OutputGap("y", worst, worst, 1.0) for worst in (0.0, 0.01, 0.5))
SAME = MetricGap("y", "accuracy", 0.91, 0.915)
WORSE = MetricGap("y", "accuracy", 0.5, 0.9)


def judge(layers=(GOOD,), outputs=(DIFFERS,), metrics=(), samples=500, length=None, max_gap=None):
    """Return the verdict, the reason and the advice."""
    gap = TrainInferenceGap("", "", outputs, tuple(layers), max_gap, metrics)
    advice = advise_on_gap(gap, length, rounding=1e-5)
    return *describe_gap(gap, advice, samples), advice


def of_layer(length=None, **changes):
    return judge([dataclasses.replace(GOOD, **changes)], length=length)


HARMLESS = {
    "equal statistics": (
        {"layers": [GOOD]},
        "the moving statistics agree with the data: the means are at most 0.01 standard "
        "deviations away (in bn); the outputs differ by up to 0.5",
    ),
    "equal accuracy": (
        {"layers": [FAR], "metrics": (SAME,)},
        "0.915 in training mode; the outputs differ by up to 0.5, because training mode uses",
    ),
    "small difference": (
        {"layers": [GOOD], "outputs": (SMALL,)},
        "at most 0.01 standard deviations away (in bn)",
    ),
    "equal accuracy without batch norm": (
        {"layers": [], "metrics": (SAME,)},
        "the accuracy is 0.91 in inference mode and 0.915",
    ),
    "no batch norm": (
        {"layers": [], "outputs": (EQUAL,)},
        "the model has no batch normalization, and training",
    ),
    "few samples": ({"layers": [GOOD], "samples": 20}, "; 20 samples are few, give 100"),
}


@pytest.mark.parametrize(("gap", "reason"), HARMLESS.values(), ids=HARMLESS)
def test_a_gap_without_harm_has_a_reason_and_no_advice(gap, reason):
    verdict, found, advice = judge(**gap)
    assert (verdict, advice) == ("ok", ())
    assert reason in found


HARMFUL = {
    "far statistics": ({"layers": [FAR]}, ["Call recalibrate"]),
    "worse accuracy": ({"layers": [GOOD], "metrics": (WORSE,)}, ["Call recalibrate"]),
    "both": ({"layers": [FAR], "metrics": (WORSE,)}, ["Call recalibrate", "Call recalibrate"]),
    "an output without labels": (
        {"layers": [FAR], "metrics": (SAME,), "outputs": (DIFFERS, OutputGap("z", 0, 0, 1))},
        ["Call recalibrate"],
    ),
    "above max_gap with far statistics": (
        {"layers": [FAR], "metrics": (SAME,), "max_gap": 0.1},
        ["Call recalibrate"],
    ),
    "above max_gap": ({"layers": [GOOD], "max_gap": 0.1}, ["Call recalibrate"]),
    "no batch norm": ({"layers": []}, ["Find the layer whose output"]),
}


@pytest.mark.parametrize(("gap", "advice"), HARMFUL.values(), ids=HARMFUL)
def test_a_gap_with_harm_has_advice_and_is_large(gap, advice):
    verdict, reason, found = judge(**gap)
    assert verdict == "large"
    assert [finding.advice[: len(start)] for finding, start in zip(found, advice, strict=True)] == (
        advice
    )
    assert reason.startswith(f"{found[0].subject}: {found[0].observation}")


@pytest.mark.parametrize(
    ("changes", "observation", "advice"),
    [
        ({"trained_rows": 0}, "initial values", "recalibrate"),
        ({"trained_rows": 0, "distance": 3.0}, "initial values", "recalibrate"),
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
            {"by_row": (0.1,) * 8, "length": 12, "distance": 0.5},
            "12 timesteps, but the layer has moving statistics for only 8 timesteps",
            "max_timesteps=12",
        ),
    ],
)
def test_statistics_that_differ_from_the_data_have_advice(changes, observation, advice):
    _, _, (finding,) = of_layer(**changes)
    assert finding.subject == "bn"
    assert observation in finding.observation
    assert advice in finding.advice


@pytest.mark.parametrize(
    "changes",
    [
        {"updates": (4,), "initial_share": 0.0},
        {"updates": (4,), "initial_share": 0.96},
        {"by_row": (0.01,) * 8, "length": 12},
    ],
)
def test_statistics_that_agree_with_the_data_need_no_advice(changes):
    assert of_layer(**changes)[2] == ()


def test_layers_with_one_problem_are_one_finding():
    layers = [dataclasses.replace(GOOD, path=path, trained_rows=0) for path in "abc"]
    _, _, (finding,) = judge(layers)
    assert finding.subject == "a and 2 more"


@pytest.mark.parametrize(
    ("metric", "worse"),
    [
        (MetricGap("y", "accuracy", 0.5, 0.9), True),
        (MetricGap("y", "accuracy", 0.9, 0.5), False),
        (MetricGap("y", "mean squared error", 2.0, 1.0), True),
        (MetricGap("y", "mean squared error", 1.0, 2.0), False),
    ],
)
def test_a_metric_that_is_worse_in_inference_mode_has_advice(metric, worse):
    assert [f.observation.split(" is ")[0] for f in judge(metrics=(metric,))[2]] == [
        f"the {metric.name}"
    ] * worse


def test_a_gap_that_was_not_measured_fails_max_gap_with_advice():
    gap = TrainInferenceGap("not measured", "no config", max_gap=0.1)
    (finding,) = advise_on_gap(gap, None, 1e-5)
    assert "no config" in finding.observation
    assert "give no max_gap" in finding.advice
