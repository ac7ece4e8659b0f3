import dataclasses

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export import export_saved_model, export_tflite
from keras_norm.export.checks.first_difference import find_first_difference
from keras_norm.export.errors import ConversionError
from keras_norm.export.formats.format_registry import FORMATS
from tests.export import models

DATA = {"x": np.random.default_rng(0).normal(size=(5, 6, 3)).astype("float32")}
SHARE = 1e-5


def flat():
    """Build a model without a recurrence, which exports faster."""
    keras.utils.set_random_seed(0)
    layers = (
        keras.layers.BatchNormalization(name="bn"),
        keras.layers.Dense(6, activation="relu", name="dense"),
        keras.layers.GlobalAveragePooling1D(name="pool"),
        keras.layers.Dense(2, name="y"),
    )
    return models.stack(*layers)


@pytest.fixture(scope="module")
def tflite_file(tmp_path_factory):
    return export_tflite(flat(), tmp_path_factory.mktemp("first") / "model.tflite")


def retrained(model, name):
    """Change the weights of one layer: older files differ from this layer on."""
    layer = model.get_layer(name)
    layer.set_weights([weight + 0.05 for weight in layer.get_weights()])
    return model


def test_the_layer_of_a_tflite_file_with_old_weights_is_named(tflite_file):
    found = find_first_difference(retrained(flat(), "dense"), str(tflite_file), DATA, SHARE)
    assert (found.layer, found.stale) == ("dense", True)


def dense():
    """A model with layers that are large enough for the converter to quantize."""
    keras.utils.set_random_seed(0)
    layers = (keras.layers.Dense(64, "relu", name="h"), keras.layers.Dense(64, name="y"))
    return models.stack(*layers, shape=(64,))


@pytest.mark.parametrize(
    ("quantize", "layer", "stale", "reason"),
    [
        ("dynamic", "y", True, "the outputs of the new file are right"),
        ("int8", None, None, "the file computes in integers"),
    ],
)
def test_the_first_difference_of_an_old_8_bit_file(tmp_path, quantize, layer, stale, reason):
    model, path = dense(), tmp_path / "model.tflite"
    rows = np.random.default_rng(0).normal(size=(50, 64)).astype("float32")
    samples = rows if quantize == "int8" else None
    export_tflite(model, path, quantize=quantize, samples=samples)
    last = model.get_layer("y")
    last.set_weights([weight + 0.5 for weight in last.get_weights()])
    found = find_first_difference(model, str(path), {"x": rows[:5]}, share=0.05)
    assert (found.layer, found.stale) == (layer, stale)
    assert reason in found.reason


def test_stale_is_none_if_the_model_cannot_be_exported_again(tflite_file, monkeypatch):
    def refused(*_, **__):
        raise ConversionError("refused")

    monkeypatch.setitem(FORMATS, "tflite", dataclasses.replace(FORMATS["tflite"], export=refused))
    found = find_first_difference(retrained(flat(), "dense"), str(tflite_file), DATA, SHARE)
    assert found.stale is None
    assert found.reason == "the model cannot be exported again: refused"


def test_the_new_export_has_no_step_signature(tmp_path, monkeypatch):
    asked = []

    def refused(*_, **options):
        asked.append(options)
        raise ConversionError("refused")

    monkeypatch.setattr("keras_norm.export.checks.first_difference._Tensors", lambda *_: None)
    known = {"export": refused, "signatures": lambda path: ()}
    saved_model = dataclasses.replace(FORMATS["saved_model"], **known)
    monkeypatch.setitem(FORMATS, "saved_model", saved_model)
    find_first_difference(flat(), str(tmp_path), DATA, SHARE)
    assert asked == [{"step": False}]


def nested():
    """A model with two inputs, masks, a shared layer and a nested model."""
    keras.utils.set_random_seed(0)
    inner = keras.Sequential(
        [
            keras.Input((None, 4)),
            keras_norm.LayerNormSimpleRNN(4, return_sequences=True, name="recurrence"),
            keras.layers.Dense(3, name="last"),
        ],
        name="encoder",
    )
    b, a = keras.Input((None,), dtype="int32", name="b"), keras.Input((None, 3), name="a")
    twice = keras.layers.Dense(4, name="twice")
    embedded = twice(keras.layers.Embedding(9, 4, mask_zero=True, name="embedding")(b))
    both = keras.layers.Add(name="sum")([embedded, twice(keras.layers.Dense(4, name="first")(a))])
    return keras.Model([b, a], keras.layers.Dense(2, name="y")(inner(both)))


def test_a_layer_inside_a_nested_model_is_named_by_its_path(tmp_path):
    model = nested()
    file = export_saved_model(model, tmp_path / "saved_model", step=False)
    layer = model.get_layer("encoder").get_layer("recurrence")
    layer.set_weights([weight + 0.05 for weight in layer.get_weights()])
    tokens = np.random.default_rng(0).integers(1, 9, size=(5, 6)).astype("int32")
    tokens[:3, 4:] = 0
    inputs = {"b": tokens, "a": DATA["x"]}
    found = find_first_difference(model, str(file), inputs, SHARE)
    assert (found.layer, found.stale) == ("encoder/recurrence", True)
    assert found.reason.startswith("the file does not contain the weights of encoder/recurrence")


def test_the_first_difference_of_a_function_is_not_known():
    assert (
        "tensors inside a function are not visible"
        in find_first_difference(flat(), "", DATA, SHARE).reason
    )


def test_a_file_that_cannot_be_read_leaves_the_layer_unknown(tmp_path):
    found = find_first_difference(flat(), str(tmp_path), DATA, SHARE)
    assert found.layer is None
    assert found.reason.startswith("the tensors of the file cannot be computed")


def test_weights_that_inference_does_not_read_are_not_compared(tmp_path):
    x = keras.Input((3,), name="x")
    scaled = keras.layers.Normalization(name="scaled")
    scaled.adapt(np.random.default_rng(0).normal(3.0, 2.0, (50, 3)))
    counted = keras_norm.BatchNormalization(debias=True, name="counted")
    model = keras.Model(x, keras.layers.Dense(2, name="dense")(counted(scaled(x))))
    file = export_saved_model(model, tmp_path / "saved_model")
    data = {"x": np.random.default_rng(1).normal(size=(8, 3)).astype("float32")}
    found = find_first_difference(retrained(model, "dense"), str(file), data, SHARE)
    assert found.reason == "the file does not contain the weights of dense"
