"""Fixtures of the tests of exports."""

import os

import filelock
import keras
import numpy as np
import pytest

from keras_norm.export import export_saved_model, export_tflite
from keras_norm.export.checks import first_difference
from keras_norm.export.model import rounding
from keras_norm.export.results.artifact_result import FirstDifference
from tests.export import models


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """Return a function that writes a file once for all processes of the suite.

    The function takes a path and a function that writes this path. Other processes wait for it.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def write_once(name, write):
        path = folder / f"with {name}" / name
        path.parent.mkdir(exist_ok=True)
        with filelock.FileLock(folder / f"{name}.lock"):
            if not path.exists():
                write(path)
        return path

    return write_once


@pytest.fixture(scope="session")
def recurrent(written):
    """Return the model of `recurrent_saved_model` and `recurrent_tflite`; no test changes it."""
    path = written("recurrent.keras", lambda path: models.recurrent().save(path))
    return keras.saving.load_model(path)


@pytest.fixture(scope="session")
def dense_files(written):
    """Write a model of one Dense layer, its exports and data to a folder, to read or to copy."""

    def write(folder):
        folder.mkdir()
        model, rng = models.dense(), np.random.default_rng(0)
        model.save(folder / "model.keras")
        export_saved_model(model, folder / "saved_model")
        export_tflite(model, folder / "model.tflite")
        np.savez(folder / "data.npz", x=rng.normal(size=(4, 3)).astype("float32"))

    return written("dense", write)


@pytest.fixture(scope="session")
def recurrent_saved_model(recurrent, written):
    """Return a SavedModel with a step signature, to read."""
    return written("served", lambda path: export_saved_model(recurrent, path, step=True))


@pytest.fixture(scope="session")
def recurrent_tflite(recurrent, written):
    """Return a TFLite file with a step signature, to read, with its golden cases beside it."""
    return written("recurrent.tflite", lambda path: export_tflite(recurrent, path, step=True))


@pytest.fixture(scope="session")
def step_only(recurrent, written):
    """Return a model, and a TFLite file with the step signature only."""
    options = {"signature": "step"}
    path = written("step.tflite", lambda path: export_tflite(recurrent, path, **options))
    return recurrent, path


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
    monkeypatch.setattr(first_difference, "find_first_difference", lambda *_: unknown)
