"""Checks in OpenVINO, a runtime that shares no code with TensorFlow."""

import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export import check, export_saved_model
from keras_norm.export.checks import artifacts
from tests.export import models

pytest.importorskip("openvino")

# The package `export` has a function of this name.
CHECK = importlib.import_module("keras_norm.export.checks.check")
DATA = np.random.default_rng(0).normal(size=(3, 4, 3)).astype("float32")


@pytest.fixture(autouse=True)
def optional_runtimes(monkeypatch):
    """Run OpenVINO only, because other tests cover the other runtimes."""

    def second_only(files, model):
        return tuple(source for source in artifacts.sources(files, model) if source.optional)

    monkeypatch.setattr(CHECK, "sources", second_only)


def test_openvino_does_not_run_models_quantized_by_keras(tmp_path):
    """OpenVINO multiplies the integers of such a model wrongly."""
    model = models.dense()
    model.get_layer("y").quantize("int8")
    file = export_saved_model(model, tmp_path / "quantized")
    assert [source.name for source in artifacts.sources(file)] == ["quantized", "quantized (C API)"]
    floats = export_saved_model(models.dense(), tmp_path / "floats")
    assert "floats (OpenVINO)" in [source.name for source in artifacts.sources(floats)]


def check_quickly(model, file):
    return check(model, [file], DATA, batch_sizes=[3], lengths=[4])


def test_an_unsupported_nested_loop_is_a_note(recurrent, recurrent_tflite):
    report = check_quickly(recurrent, recurrent_tflite)
    assert report
    assert report.artifacts == ()
    (note,) = report.notes
    assert "OpenVINO cannot read the file: it has a loop inside a loop" in note


def test_an_unknown_op_is_named(tmp_path):
    inputs = keras.Input((None, 3), name="x")
    text = keras.layers.Lambda(lambda x: tf.strings.length(tf.strings.as_string(x)), name="y")
    model = keras.Model(inputs, text(inputs))
    report = check_quickly(model, export_saved_model(model, tmp_path / "model"))
    assert report
    rule = "No conversion rule found for operations: AsString, StringLength"
    assert any(rule in note for note in report.notes)
