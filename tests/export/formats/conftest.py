import contextlib

import keras
import pytest

from keras_norm.export import export_saved_model, export_tflite, packages
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

DTYPES = ("float16", "float32", "float64", "bfloat16", "int32", "int64", "bool")


@pytest.fixture(scope="session")
def model(written):
    """Return the model of `exported`; no test changes it."""
    return keras.saving.load_model(written("tagger.keras", lambda p: models.tagger().save(p)))


@pytest.fixture(scope="package")
def in_keras(model):
    """Run the Keras model, whose outputs the runners must return."""
    return KerasRunner(model)


@pytest.fixture(scope="session")
def exported(model, written):
    """Export a file of each format, to read; the paths have spaces."""
    folder = written("tagger", lambda path: export_saved_model(model, path, version=1))
    tflite = written("tagger.tflite", lambda path: export_tflite(model, path))
    return {"saved_model": folder / "1", "tflite": tflite}


@pytest.fixture(scope="package")
def tagger_saved_model(exported):
    return exported["saved_model"]


@pytest.fixture(scope="package")
def runners(exported):
    """Open the files of `exported`: (file, class of the runner) by the name of the runtime."""
    kinds = {
        "saved_model": ("saved_model", SavedModelRunner),
        "c_api": ("saved_model", CApiRunner),
        "tflite": ("tflite", TFLiteRunner),
    }
    if packages.is_installed("openvino"):
        kinds["openvino"] = ("saved_model", OpenVINORunner)
        kinds["openvino of tflite"] = ("tflite", OpenVINORunner)
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(runner(exported[file]))
            for name, (file, runner) in kinds.items()
        }


@pytest.fixture
def runner(request, runners):
    """Return the runner of the runtime that a test names, if the runtime is installed."""
    return runners.get(request.param) or pytest.skip(f"{request.param} is not installed")


@pytest.fixture(scope="package")
def echo(tmp_path_factory):
    """Build a model that returns one input of every dtype, and export its SavedModel."""
    inputs = [keras.Input((3,), name=f"{dtype}_in", dtype=dtype) for dtype in DTYPES]
    outputs = {d: keras.layers.Identity(dtype=d)(x) for d, x in zip(DTYPES, inputs, strict=True)}
    model = keras.Model(inputs, outputs)
    return model, export_saved_model(model, tmp_path_factory.mktemp("echo") / "model")
