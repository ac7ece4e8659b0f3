"""One model in all formats and all runtimes."""

import numpy as np
import pytest

import keras_norm
from keras_norm.export import check, export_onnx, export_saved_model, export_tflite
from keras_norm.export.formats import artifact_format
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

for package in ("ai_edge_litert", "openvino", "tf2onnx", "onnxruntime"):
    pytest.importorskip(package)

DATA = np.random.default_rng(0).normal(size=(3, 4, 3)).astype("float32")


@pytest.fixture(autouse=True)
def optional_runtimes(monkeypatch):
    """Use OpenVINO, which most tests omit."""
    monkeypatch.setattr(artifact_format, "is_installed", lambda extra: True)


# `make test` runs each runtime by itself: in `formats`, and OpenVINO in test_second_opinion.py.
@pytest.mark.slow
def test_every_runtime_gives_what_keras_gives(tmp_path):
    model = models.of(keras_norm.LayerNormSimpleRNN(4, name="rnn"))
    files = [
        export_saved_model(model, tmp_path / "served", step=False),
        export_tflite(model, tmp_path / "model.tflite", step=False),
        export_onnx(model, tmp_path / "model.onnx"),
    ]
    report = check(model, [KerasRunner(model), *files], DATA, batch_sizes=[3], lengths=[4])
    assert report
    assert [result.name for result in report.artifacts] == [
        "Keras",
        "served",
        "served (C API)",
        "served (OpenVINO)",
        "model.tflite",
        "model.tflite (OpenVINO)",
        "model.onnx",
    ]
    assert all(result.outputs for result in report.artifacts)
