import keras
import numpy as np
import pytest

from keras_norm.export import signature
from tests.export import models


def test_outputs_of_a_list_model_are_named_by_layer_and_numbered():
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, name="y")(inputs)
    model = keras.Model(inputs, [outputs, outputs])
    assert signature.output_names(model) == ["y", "y_1"]


def test_a_name_without_a_letter_gets_a_prefix():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, {"": keras.layers.Dense(2)(inputs)})
    assert signature.output_names(model) == ["tensor_"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a b", "a-b"], ["a_b", "a_b_1"]),
        (["X", "x"], ["X", "x_1"]),  # TensorFlow's graphs ignore case
        (["_x", "1x"], ["tensor_x", "tensor_1x"]),
        (["self"], ["self_1"]),  # taken where names become keyword arguments
    ],
)
def test_invalid_characters_of_names_are_replaced(given, expected):
    inputs = [keras.Input((1,), name=name) for name in given]
    model = keras.Model(inputs, [keras.layers.Identity()(x) for x in inputs])
    assert list(signature.input_specs(model)) == expected


@pytest.mark.parametrize("structure", ["single", "list", "dict", "sequential"])
def test_call_takes_named_inputs_for_every_structure(structure):
    if structure == "sequential":
        model = keras.Sequential([keras.Input((2,), name="a"), keras.layers.Dense(1, name="y")])
    else:
        a = keras.Input((2,), name="a")
        b = keras.Input((2,), name="b")
        inputs = {"single": a, "list": [b, a], "dict": {"b": b, "a": a}}[structure]
        summed = a if structure == "single" else keras.layers.Subtract()([a, b])
        model = keras.Model(inputs, keras.layers.Dense(1, name="y")(summed))
    kernel = np.array([[1.0], [10.0]])
    model.get_layer("y").set_weights([kernel, np.zeros(1)])
    given = {"a": np.array([[5.0, 7.0]], "float32"), "b": np.array([[1.0, 2.0]], "float32")}
    given = {name: given[name] for name in signature.input_specs(model)}
    expected = 75.0 if len(given) == 1 else 54.0
    assert float(signature.call(model, given)["y"][0, 0]) == expected


def test_call_passes_training():
    model = models.of(keras.layers.Dropout(0.5, name="y"), (100,))
    (name,) = signature.input_specs(model)
    ones = np.ones((1, 100), "float32")
    assert float(np.min(signature.call(model, {name: ones}, training=True)["y"])) == 0.0
    assert float(np.min(signature.call(model, {name: ones})["y"])) == 1.0


def test_an_unnamed_sequential_input_gets_the_same_name_every_time():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.build((None, 2))
    assert list(signature.input_specs(model)) == ["input"]


def test_call_raises_for_wrong_names():
    for inputs in (None, np.ones((2, 3))):
        with pytest.raises(ValueError, match="takes a dict of arrays by name, x; received"):
            signature.require_names(inputs, ["x"], "the file")
    with pytest.raises(ValueError, match=r'model ".*" takes the inputs x; received z'):
        signature.call(models.dense(), {"z": np.zeros((1, 3))})


class Subclassed(keras.Model):
    def call(self, inputs):
        return inputs


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (Subclassed(), "Wrap the model"),
        (keras.Sequential([keras.layers.Dense(1)]), "Build the model: let it begin with"),
        ("a path", "Load the model: .* keras.saving.load_model"),
    ],
    ids=["a subclass", "not built", "a path"],
)
def test_models_without_symbolic_inputs_raise_with_advice(model, remedy):
    with pytest.raises(ValueError, match=rf"received {type(model).__name__}\. {remedy}"):
        signature.input_specs(model)
