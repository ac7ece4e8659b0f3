import keras
import pytest

from keras_norm.export import export_saved_model, export_tflite
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.model.keras_runner import KerasRunner
from tests.export import models

DTYPES = ("float16", "float32", "float64", "bfloat16", "int32", "int64", "bool")


@pytest.fixture(scope="package")
def model():
    return models.tagger()


@pytest.fixture(scope="package")
def in_keras(model):
    """Run the Keras model, whose outputs the runners must return."""
    return KerasRunner(model)


@pytest.fixture(scope="package")
def exported(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("with a space")
    return {
        "saved_model": export_saved_model(model, folder / "served", version=1),
        "tflite": export_tflite(model, folder / "model.tflite"),
    }


@pytest.fixture(scope="package")
def tagger_saved_model(exported):
    return exported["saved_model"]


@pytest.fixture(scope="package")
def runners(exported):
    with (
        SavedModelRunner(exported["saved_model"]) as saved_model,
        CApiRunner(exported["saved_model"]) as c_api,
        TFLiteRunner(exported["tflite"]) as tflite,
    ):
        yield {"saved_model": saved_model, "c_api": c_api, "tflite": tflite}


@pytest.fixture(scope="package")
def echo(tmp_path_factory):
    """Build a model that returns one input of every dtype, and export its SavedModel."""
    inputs = [keras.Input((3,), name=f"{dtype}_in", dtype=dtype) for dtype in DTYPES]
    outputs = {d: keras.layers.Identity(dtype=d)(x) for d, x in zip(DTYPES, inputs, strict=True)}
    model = keras.Model(inputs, outputs)
    return model, export_saved_model(model, tmp_path_factory.mktemp("echo") / "model")
