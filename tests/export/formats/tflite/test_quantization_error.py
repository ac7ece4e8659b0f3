"""Quantized files: accuracy on handwritten digits, refusals and warnings."""

import keras
import numpy as np
import pytest

import keras_norm
from experiments.planted_defects import plant
from keras_norm.export import Step, VerificationError, check, export_tflite
from keras_norm.export.checks import plan
from keras_norm.export.formats.tflite import quantization_error
from keras_norm.export.formats.tflite.calibration import read_representative
from keras_norm.export.formats.tflite.tflite_graph import read_graph
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models


def accuracy(probabilities, labels):
    return (probabilities.argmax(-1) == labels).mean()


def test_a_trained_model_of_static_length_in_8_bits_keeps_its_accuracy(
    tmp_path, reader, data, caplog
):
    x, x_test, _, y_test = data
    path = export_tflite(reader, tmp_path / "m.tflite", quantize="int8", samples=x[:50])
    assert caplog.messages[-1].startswith('the file with quantize="int8" is larger')
    with TFLiteRunner(path) as run:
        (actual,) = run({"rows": x_test}).values()
        assert run.inputs["rows"].dtype == "float32"
        assert "WHILE" not in run.ops()
    expected = reader.predict(x_test, verbose=0)
    assert accuracy(expected, y_test) > 0.8
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - 0.02
    rms = np.sqrt(np.mean((actual - expected) ** 2))
    assert rms < 0.02
    report = check(reader, path, x_test, batch_sizes=[40])
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
    tmp_path, reader, data, quantized_step, quantize, lost, off, monkeypatch
):
    monkeypatch.setattr(plan, "TIMESTEPS", 100)
    _, x_test, _, y_test = data
    path = quantized_step(quantize)
    with TFLiteRunner(path, "step") as run:
        (actual,) = Step(reader).over_time(run, {"rows": x_test}).values()
        assert run.signatures() == ["step"]
        assert {spec.dtype for spec in run.inputs.values()} == {"float32"}
    expected = reader.predict(x_test, verbose=0)
    assert accuracy(actual, y_test) > accuracy(expected, y_test) - lost
    assert np.sqrt(np.mean((actual - expected) ** 2)) < off
    wrong = tmp_path / "wrong.tflite"
    kernel = next(c.name for c in read_graph(path).constants if c.values.shape == (64, 16))
    wrong.write_bytes(plant(path, kernel, lambda values: 0.8 * values))
    report = check(reader, [path, wrong], x_test[:40], batch_sizes=[3])
    assert not [result for result in report.artifacts if "OpenVINO" in result.name]
    # The outputs of both files are within the limit of the exporter.
    assert {(f.subject, f.check) for f in report.failures} == {("wrong.tflite", "constants")}
    assert {r.property("input range").status for r in report.artifacts[:1]} == {"pass"}


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
    samples = read_representative(model(factor), "int8", x)
    quantization_error.verify_useful(KerasRunner(model(factor)), path, "int8", samples)
    assert bool(caplog.messages) == warned
    if warned:
        assert caplog.messages[0].startswith('output "y" of the quantized file has an error of 0.1')
        assert caplog.messages[0].endswith(
            ". The error is 13% of this standard deviation. "
            'Measure the accuracy on labels, or choose quantize="int16x8"'
        )


def test_a_file_with_a_large_error_is_refused(tmp_path):
    inputs = keras.Input((2,), name="x")
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([np.array([[1.0], [1e-3]])])
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 2)) * [1.0, 300.0]
    with pytest.raises(VerificationError, match=r"error .* larger than the limit: a quarter"):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", samples=x)
    assert list(tmp_path.iterdir()) == []


def test_layers_of_static_length_run_without_a_loop_in_integers(tmp_path):
    inputs = keras.Input((3, 3), name="x")
    layers = {
        "keras": keras.layers.SimpleRNN(4, return_sequences=True),
        "both": keras.layers.Bidirectional(keras_norm.LayerNormSimpleRNN(4)),
        "cells": keras.layers.RNN([keras.layers.SimpleRNNCell(4) for _ in range(2)]),
    }
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, {name: layer(masked) for name, layer in layers.items()})
    x = np.random.default_rng(0).normal(size=(40, 3, 3)).astype("float32")
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
            '(400 kB, 0.76 ms; "dynamic": 66 kB, 0.18 ms). A file in integers repeats the '
        )
    assert message is None or message in caplog.messages[0]


@pytest.mark.parametrize(
    ("layer", "time"), [(keras_norm.LayerNormGRU, None), (keras.layers.LSTM, 129)]
)
def test_a_dynamic_or_long_loop_in_8_bits_is_refused_with_the_layer_and_advice(
    tmp_path, layer, time
):
    model = models.of(layer(4, name="looped"), (time, 3))
    samples = np.ones((4, time or 5, 3))
    with pytest.raises(ValueError, match=r'loop of layer "looped" \(\w+\)\. .* of at most 128, '):
        export_tflite(model, tmp_path / "m.tflite", quantize="int8", samples=samples)
    assert list(tmp_path.iterdir()) == []
