"""Fixtures of the tests of exports."""

import pytest

from keras_norm.export import export_saved_model, export_tflite
from keras_norm.export.checks import first_difference
from keras_norm.export.model import rounding
from keras_norm.export.results.artifact_result import FirstDifference
from tests.export import models


@pytest.fixture(scope="session")
def recurrent():
    """Build the model of `recurrent_saved_model` and `recurrent_tflite`; no test changes it."""
    return models.recurrent()


@pytest.fixture(scope="session")
def recurrent_saved_model(recurrent, tmp_path_factory):
    """Export a SavedModel with a step signature, to read."""
    return export_saved_model(recurrent, tmp_path_factory.mktemp("saved") / "served", step=True)


@pytest.fixture(scope="session")
def recurrent_tflite(recurrent, tmp_path_factory):
    """Export a TFLite file with a step signature, to read, with its golden cases beside it."""
    return export_tflite(recurrent, tmp_path_factory.mktemp("tflite") / "model.tflite", step=True)


@pytest.fixture(scope="session")
def step_only(tmp_path_factory):
    """Export a TFLite file with the step signature only; return the model and the file."""
    model = models.recurrent()
    path = tmp_path_factory.mktemp("step") / "step.tflite"
    return model, export_tflite(model, path, signature="step")


@pytest.fixture
def unmeasured_rounding(monkeypatch):
    """Do not measure rounding errors: to trace copies of the model takes most of a failed check.

    `checks/test_check_tolerance.py` and `model/test_rounding.py` test the measurement.
    """
    monkeypatch.setattr(rounding, "rounding_errors", lambda *_: {})


@pytest.fixture
def unexplained(unmeasured_rounding, monkeypatch):
    """Do not search for the first layer that differs, which needs an export."""
    unknown = FirstDifference(None, "not asked")
    monkeypatch.setattr(first_difference, "explain_difference", lambda *_: unknown)
