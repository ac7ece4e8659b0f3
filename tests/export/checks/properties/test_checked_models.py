"""Checks of models and artifacts that lack a property."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_norm
from keras_norm.export import check
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export.checks.faulty_artifacts import DATA, failed, faulty, sequence_model
from tests.export.own_layers import Counter

pytestmark = pytest.mark.usefixtures("unmeasured_rounding")


def test_an_artifact_that_counts_its_calls_fails(model):
    calls = []

    def fault(inputs, outputs):
        calls.append(inputs)
        return {"y": outputs["y"] + 0.001 * len(calls)}

    report = check(model, [faulty(model, fault)], DATA, atol=0.0, rtol=0.0)
    assert ("faulty_run", "repeat") in failed(report)


def test_nan_in_the_model_and_in_the_artifact_fails():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, {"y": ops.log(x), "z": ops.log(ops.square(x) + 1.0)})
    report = check(model, [KerasRunner(model)], -np.abs(DATA))
    assert failed(report) == {("Keras model", "no NaN"), ("Keras", "values")}
    (finding,) = report.findings[:1]
    assert finding.observation == "output 'y' is NaN for every sample"
    assert finding.advice.startswith("Give data for which no output is NaN")
    assert report.artifacts[0].first_difference is None


def test_nan_in_the_model_for_one_sample_fails():
    x = keras.Input((None, 3), name="x")
    model = keras.Model(x, {"y": ops.log(x)})
    data = np.abs(DATA)
    data[8, 5, 0] = -1.0
    report = check(model, [KerasRunner(model)], data)
    assert ("Keras model", "no NaN") in failed(report)
    assert report.findings[0].observation == "output 'y' is NaN in 1 of 162 values"


def test_a_keras_model_that_changes_a_weight_at_inference_fails():
    counting = sequence_model(Counter(name="counts"))
    report = check(counting, [KerasRunner(sequence_model())], DATA)
    assert failed(report) == {("Keras model", "weights")}
    assert "calls" in report.failures[0].detail


@pytest.mark.parametrize(
    ("go_backwards", "side", "status", "advice"),
    [
        (True, "right padding", "fail", "Pad on the left"),
        (False, "left padding", "differs", "Pad on the right"),
    ],
)
def test_only_right_padding_that_changes_the_keras_model_fails(go_backwards, side, status, advice):
    options = {"go_backwards": go_backwards, "count_leading_padding": True}
    recurrence = keras_norm.BatchNormSimpleRNN(4, max_timesteps=8, **options)
    model = sequence_model(keras.layers.Masking(-1.0), recurrence)
    model(DATA, training=True)
    report = check(model, [KerasRunner(model)], DATA, batch_sizes=[7], lengths=[6])
    assert failed(report) == ({("Keras model", side)} if status == "fail" else set())
    assert report.keras.property(side).status == status
    assert any(f.advice.startswith(advice) for f in report.findings)


def test_the_layer_that_lost_a_mask_is_named_if_padding_changes_the_outputs():
    inputs = keras.Input((None, 3), name="x")
    h = keras.layers.Masking(-1.0)(inputs) * 2.0  # operations of Keras pass no mask on
    model = keras.Model(inputs, keras.layers.SimpleRNN(4, name="rnn")(h))
    report = check(model, [KerasRunner(model)], DATA, batch_sizes=[7], lengths=[6])
    assert failed(report) == {("Keras model", "right padding")}
    assert report.keras.property("masks").status == "differs"
    (lost,) = report.findings
    assert "operation 'multiply" in lost.observation
    assert lost.advice.startswith("Give the mask to 'rnn' in its call, as mask=")


def test_a_mask_that_is_an_input_is_padded():
    x, keep = keras.Input((None, 3), name="x"), keras.Input((None,), dtype="bool", name="keep")
    h = keras.layers.SimpleRNN(4)(keras.layers.Dense(4)(x), mask=keep)
    model = keras.Model([x, keep], keras.layers.Dense(2, name="y")(h))
    report = check(model, [KerasRunner(model)], {"x": DATA, "keep": np.ones((9, 6), bool)})
    assert report.keras.property("right padding").status == "pass"
    assert "batch 7, length 6, with gaps" in report.artifacts[0].outputs[0].cases
