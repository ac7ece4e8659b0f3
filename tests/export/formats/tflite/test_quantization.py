"""Quantized files: accuracy on handwritten digits, refusals and warnings."""

import keras
import numpy as np
import pytest

import keras_norm
from examples import digits
from experiments.planted_defects import plant
from keras_norm.export import (
    Step,
    StreamingError,
    VerificationError,
    check,
    export_tflite,
)
from keras_norm.export.checks import plan
from keras_norm.export.formats.tflite import calibration, quantization_error
from keras_norm.export.formats.tflite.tflite_graph import read_graph
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from tests.export import models


@pytest.fixture(scope="module")
def data():
    return digits.load()


@pytest.fixture(scope="module")
def trained(data):
    """Train a recurrence of static length with LayerNorm to an accuracy of more than 0.8."""
    x, _, y, _ = data
    inputs = keras.Input((8, 8), name="rows")
    hidden = keras_norm.LayerNormSimpleRNN(32, name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax")(hidden))
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(x, y, 64, 3, verbose=0)
    return model


def accuracy(probabilities, labels):
    return (probabilities.argmax(-1) == labels).mean()


def test_a_trained_model_of_static_length_in_8_bits_keeps_its_accuracy(
    tmp_path, trained, data, caplog
):
    x, x_test, _, y_test = data
    path = export_tflite(trained, tmp_path / "m.tflite", quantize="int8", samples=x[:50])
    assert caplog.messages[-1].startswith('the file with quantize="int8" is larger')
    with TFLiteRunner(path) as run:
        (actual,) = run({"rows": x_test}).values()
        assert run.inputs["rows"].dtype == "float32"
        assert "WHILE" not in run.ops()
    expected = trained.predict(x_test, verbose=0)
    assert accuracy(expected, y_test) > 0.8
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - 0.02
    rms = np.sqrt(np.mean((actual - expected) ** 2))
    assert rms < 0.02
    report = check(trained, path, x_test, batch_sizes=[40])
    assert report.status == "approximate"
    errors = report.artifacts[0].outputs[0].errors
    changed = (actual.argmax(-1) != expected.argmax(-1)).sum()
    assert (errors.predictions, errors.changed) == (len(x_test), changed)
    assert errors.rms == pytest.approx(rms, rel=1e-4)
    assert errors.deviation == pytest.approx(np.sqrt(expected.var(axis=0).mean()), rel=1e-4)
    assert errors.max_abs == pytest.approx(np.abs(actual - expected).max(), rel=1e-4)


@pytest.mark.parametrize(
    ("quantize", "lost", "off"), [("int8", 0.02, 0.05), ("int16x8", 0.01, 0.01)]
)
def test_a_step_in_8_bits_keeps_its_accuracy_over_whole_streams(
    tmp_path, trained, data, quantize, lost, off, monkeypatch
):
    monkeypatch.setattr(plan, "TIMESTEPS", 100)
    x, x_test, _, y_test = data
    path = tmp_path / "m.tflite"
    export_tflite(trained, path, signature="step", quantize=quantize, samples=x[:100])
    with TFLiteRunner(path, "step") as run:
        (actual,) = Step(trained).over_time(run, {"rows": x_test}).values()
        assert run.signatures() == ["step"]
        assert {spec.dtype for spec in run.inputs.values()} == {"float32"}
    expected = trained.predict(x_test, verbose=0)
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - lost
    assert np.sqrt(np.mean((actual - expected) ** 2)) < off
    wrong = tmp_path / "wrong.tflite"
    kernel = next(c.name for c in read_graph(path).constants if c.values.shape == (32, 8))
    wrong.write_bytes(plant(path, kernel, lambda values: 0.8 * values))
    report = check(trained, [path, wrong], x_test[:40], batch_sizes=[3])
    assert not [result for result in report.artifacts if "OpenVINO" in result.name]
    # The outputs of both files are within the limit of the exporter.
    assert {(f.subject, f.check) for f in report.failures} == {("wrong.tflite", "constants")}
    assert {r.property("input range").status for r in report.artifacts[:1]} == {"pass"}


def test_scales_are_measured_on_inputs_and_states_of_running_streams(trained, data):
    rows = data[0][:5]
    samples = calibration.read_representative(trained, "int8", rows)
    arrays, batch = calibration.calibration_data(samples, Step(trained), "int16x8")
    np.testing.assert_array_equal(arrays["rows"], rows.transpose(1, 0, 2).reshape(-1, 8))
    layer = trained.get_layer("hidden")
    states = arrays["hidden_h"].reshape(8, 5, 32)
    assert batch == 1
    assert not states[0].any()
    for t in range(1, 8):
        np.testing.assert_allclose(states[t], layer(rows[:, :t]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("layer", [keras_norm.LayerNormLSTM, keras_norm.LayerNormGRU])
def test_calibration_of_8_bits_has_first_timesteps_without_a_hidden_state_of_zeros(layer):
    """The cell state stays 0, because it is small after the first timestep."""
    inputs = keras.Input((None, 3), name="x")
    step = Step(keras.Model(inputs, layer(4, name="rnn")(inputs)))
    x = np.random.default_rng(0).normal(size=(5, 6, 3)).astype("float32")
    x[0, 3] = 0.0  # this timestep is omitted
    samples = calibration.read_representative(step.model, "int8", x)
    every, _ = calibration.calibration_data(samples, step, "int16x8")
    found, _ = calibration.calibration_data(samples, step, "int8")
    assert len(found["x"]) == 5 * 6 - 1
    np.testing.assert_array_equal(found["x"][:5], every["x"][:5])
    assert not every["rnn_h"][:5].any()
    np.testing.assert_array_equal(found["rnn_h"][:5], every["rnn_h"][5:10])
    for name in found.keys() - {"x", "rnn_h"}:
        np.testing.assert_array_equal(found[name][:5], every[name][:5])


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """Return a function from a factor to the model factor * x, and the file of the model x."""

    def model(factor):
        inputs = keras.Input((2,), name="x")
        layer = keras.layers.Dense(2, name="y")
        outputs = layer(inputs)
        layer.set_weights([np.eye(2) * factor, np.zeros(2)])
        return keras.Model(inputs, outputs)

    path = tmp_path_factory.mktemp("linear") / "m.tflite"
    return model, export_tflite(model(1.0), path)


@pytest.mark.parametrize(("factor", "warned"), [(1.05, False), (1.15, True)])
def test_an_error_of_a_tenth_of_the_deviation_logs_a_warning(linear, caplog, factor, warned):
    model, path = linear
    x = np.random.default_rng(0).normal(size=(100, 2)).astype("float32")
    samples = calibration.read_representative(model(factor), "int8", x)
    quantization_error.verify_useful(model(factor), path, "int8", samples)
    assert bool(caplog.messages) == warned
    if warned:
        assert caplog.messages[0].startswith('output "y" of the quantized file has the error 0.1')
        assert caplog.messages[0].endswith(
            ": the error is 13% of the standard deviation. "
            'Measure the accuracy on labels, or choose quantize="int16x8"'
        )


def test_a_file_with_a_large_error_is_refused(tmp_path):
    inputs = keras.Input((2,), name="x")
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([np.array([[1.0], [1e-3]])])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)) * [1.0, 300.0]
    with pytest.raises(VerificationError, match=r"error .* more than the limit of a quarter"):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", samples=x)
    assert list(tmp_path.iterdir()) == []


def test_samples_with_equal_outputs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="returns equal outputs for all samples"):
        export_tflite(
            models.dense(), tmp_path / "m.tflite", quantize="int8", samples=np.zeros((9, 3))
        )


def test_layers_of_static_length_run_without_a_loop_in_integers(tmp_path):
    inputs = keras.Input((4, 3), name="x")
    layers = {
        "keras": keras.layers.SimpleRNN(4, return_sequences=True),
        "both": keras.layers.Bidirectional(keras_norm.LayerNormSimpleRNN(4)),
        "cells": keras.layers.RNN([keras.layers.SimpleRNNCell(4) for _ in range(2)]),
    }
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, {name: layer(masked) for name, layer in layers.items()})
    x = np.random.default_rng(0).normal(size=(40, 4, 3)).astype("float32")
    x[::3, 2:] = 0.0
    path = export_tflite(model, tmp_path / "m.tflite", quantize="int16x8", samples=x)
    expected = model.predict(x, verbose=0)
    with TFLiteRunner(path) as run:
        assert "WHILE" not in run.ops()
        for name, actual in run({"x": x}).items():
            error = np.sqrt(np.mean((actual - expected[name]) ** 2))
            assert error < 0.02 * expected[name].std(), name


@pytest.mark.parametrize(
    ("sizes", "seconds", "message"),
    [
        ((400, 66), (0.76e-3, 0.18e-3), "is larger and slower than"),
        ((400, 66), (0.1e-3, 0.18e-3), "is larger than"),
        ((60, 66), (0.1e-3, 0.18e-3), None),
    ],
)
def test_a_file_that_is_larger_or_slower_than_dynamic_logs_a_warning(
    tmp_path, monkeypatch, caplog, sizes, seconds, message
):
    files = {tmp_path / "int8.tflite": sizes[0], tmp_path / "dynamic.tflite": sizes[1]}
    for file, size in files.items():
        file.write_bytes(bytes(1000 * size))
    durations = dict(zip(files, seconds, strict=True))
    monkeypatch.setattr(quantization_error, "_shortest_call", lambda path, inputs: durations[path])
    quantization_error.warn_of_cost(*files, "int8", {})
    assert len(caplog.messages) == (message is not None)
    if message == "is larger and slower than":
        assert caplog.messages[0].startswith(
            'the file with quantize="int8" is larger and slower than with quantize="dynamic" '
            '(400 kB, 0.76 ms; "dynamic": 66 kB, 0.18 ms): it repeats the operations'
        )
    assert message is None or message in caplog.messages[0]


@pytest.mark.parametrize(
    ("layer", "time"), [(keras_norm.LayerNormGRU, None), (keras.layers.LSTM, 129)]
)
def test_a_dynamic_or_long_loop_in_8_bits_is_refused_with_the_layer_and_advice(
    tmp_path, layer, time
):
    inputs = keras.Input((time, 3), name="x")
    model = keras.Model(inputs, layer(4, name="looped")(inputs))
    samples = np.ones((4, time or 5, 3))
    with pytest.raises(ValueError, match=r'loop of layer "looped" \(\w+\)\. .* of at most 128, '):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", samples=samples)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantize": "int8"}, "Give samples="),
        ({"quantize": "int8", "samples": np.ones((4, 2))}, r"Received shape \(4, 2\)"),
        ({"quantize": "int8", "samples": np.ones((1, 3))}, "received 1. Give a few hundred"),
        ({"quantize": "int16x8"}, "Give samples="),
        ({"quantize": "int8", "step": True}, 'with the step signature only: signature="step"'),
        ({"signature": "serving_default"}, "None for whole sequences"),
        ({"signature": "step", "step": True}, "Leave step out"),
        ({"signature": "step", "step": False}, "Leave step out"),
    ],
)
def test_arguments_that_exclude_each_other_are_refused(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export_tflite(models.dense(), tmp_path / "m.tflite", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_step_only_file_of_a_model_without_a_step_is_refused(tmp_path):
    with pytest.raises(StreamingError, match="has no recurrent layer"):
        export_tflite(models.dense(), tmp_path / "m.tflite", signature="step")
    assert list(tmp_path.iterdir()) == []


def test_samples_fill_whole_batches():
    inputs = keras.Input(batch_shape=(4, 3), name="x")
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    samples = calibration.read_representative(model, "int8", np.arange(15).reshape(5, 3))
    arrays, batch = calibration.calibration_data(samples)
    assert batch == 4
    np.testing.assert_array_equal(arrays["x"][:, 0], [0, 3, 6, 9, 12, 0, 3, 6])


def test_dynamic_quantization_of_timestep_statistics_needs_samples(tmp_path):
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, keras_norm.BatchNormLSTM(2, max_timesteps=4)(inputs))
    with pytest.raises(ValueError, match=r"statistics of every timestep.*samples="):
        export_tflite(model, tmp_path / "m.tflite", quantize="dynamic")
