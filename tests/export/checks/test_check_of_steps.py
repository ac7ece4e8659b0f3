"""Checks of single-step files: every runtime runs whole sequences one timestep at a time."""

import keras
import numpy as np
import pytest

from keras_norm.export import check
from keras_norm.export.checks import plan
from tests.export import models

pytest.importorskip("openvino")
pytest.importorskip("tflite_micro")

DATA = np.random.default_rng(0).normal(size=(5, 6, 3)).astype("float32")
RUNNERS = ("step.tflite", "step.tflite (OpenVINO)", "step.tflite (TFLite Micro)")


STEPS = 1000  # replaces plan.TIMESTEPS; each sequence has 6 timesteps


@pytest.fixture(scope="module")
def report(step_only):
    model, path = step_only
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "TIMESTEPS", STEPS)
        return check(model, path, DATA, batch_sizes=[3], lengths=[6])


def test_values_are_compared_over_whole_sequences_in_every_runtime(report):
    assert report.passed
    assert "openvino" in dict(report.versions)
    assert tuple(result.name for result in report.artifacts) == RUNNERS
    for result in report.artifacts:
        assert [output.output for output in result.outputs] == ["hidden", "y"]
        plain = (case for case in result.outputs[0].cases if "row 0" not in case)
        *cases, everything = plain
        assert cases == ["batch 3, length 6"]
        assert everything == "all 5 samples"


def test_ten_thousand_timesteps_are_compared_one_by_one(report):
    assert plan.TIMESTEPS == 10_000
    for result in report.artifacts:
        tested = result.property("streaming")
        assert tested.status == "pass"
        detail = "one call for each of 1,002 timesteps gives the outputs of the Keras model"
        assert tested.detail == detail


def test_the_memory_that_a_microcontroller_needs_is_reported(report):
    arenas = {result.name: result.cost.arena for result in report.artifacts}
    assert arenas["step.tflite"] is None
    assert 2**12 <= arenas["step.tflite (TFLite Micro)"] <= 2**14


def test_a_single_step_file_gives_no_note_about_signatures(report):
    assert not report.notes


@pytest.mark.usefixtures("unmeasured_rounding")
def test_a_file_of_other_weights_fails(step_only, monkeypatch):
    monkeypatch.setattr(plan, "TIMESTEPS", 12)
    _, path = step_only
    keras.utils.set_random_seed(1)
    report = check(models.recurrent(), path, DATA, batch_sizes=[2], lengths=[6])
    assert {failure.check for failure in report.failures} == {"values", "streaming"}
    reasons = {result.first_difference.reason for result in report.artifacts}
    (reason,) = reasons
    assert reason.startswith("a single-step model computes one timestep in a call")


def test_a_single_step_file_of_a_model_without_a_step_fails_with_the_reason(step_only):
    model = models.dense()
    report = check(model, step_only[1], DATA[:, 0])
    assert {failure.check for failure in report.failures} == {"run"}
    reason = "the Keras model cannot: the model has no recurrent layer"
    assert reason in report.failures[0].detail
