"""Values are converted, pickled and read again in this process, with calls in place of messages."""

import pickle

import keras
import numpy as np
import pytest

from keras_norm.export.input_names import TensorSpec
from keras_norm.export.model import tensorflow_process
from keras_norm.export.model.portable_values import PortableValues
from keras_norm.export.model.reference_runner import TrainedRunner, reference_runner
from tests.export import models, own_layers


@pytest.fixture
def values(tmp_path):
    return PortableValues(tmp_path)


@pytest.fixture
def transfer(values, monkeypatch):
    """Convert a value and read it, as if this process were the parent and the child."""

    def send(value):
        return pickle.loads(pickle.dumps(values.convert(value)))

    class Parent:
        def call(self, name, number, args):
            assert name == "on_call"
            return "result", send(values.functions[number](*args))

    monkeypatch.setattr(tensorflow_process, "parent", Parent(), raising=False)
    return send


def test_tensors_in_lists_and_dicts_become_arrays(transfer):
    found = transfer({"x": [keras.ops.ones((2,)), (1, "text", None)]})
    assert isinstance(found["x"][0], np.ndarray)
    assert found["x"][1] == (1, "text", None)


def test_a_function_keeps_its_name_and_runs_here(transfer):
    def doubled(x):
        return {"y": 2 * x["x"]}

    function = transfer(doubled)
    assert function.name == "doubled"
    assert function({"x": 3}) == {"y": 6}


def test_a_function_keeps_the_specs_of_its_inputs(transfer):
    def run(x):
        return x

    run.inputs = {"x": TensorSpec("x", (None,), "float32")}
    assert transfer(run).inputs == run.inputs


class Batches(keras.utils.PyDataset):
    """Three batches of tensors and labels."""

    def __len__(self):
        return 3

    def __getitem__(self, k):
        return keras.ops.full((2,), k), np.full((2,), -k)


def test_every_iteration_reads_a_dataset_from_its_first_batch(transfer):
    dataset = transfer(Batches())
    assert dataset.cardinality() == 3
    for _ in range(2):
        assert [float(x[0]) for x, _ in dataset.as_numpy_iterator()] == [0.0, 1.0, 2.0]


class Endless(Batches):
    @property
    def num_batches(self):
        return None


def test_an_infinite_dataset_stays_infinite(transfer):
    assert transfer(Endless()).cardinality() == -1


def test_a_model_is_loaded_and_its_expected_outputs_are_computed_here(transfer):
    model = models.recurrent()
    copy = transfer(model)
    assert copy is not model
    run = reference_runner(copy)
    assert isinstance(run, TrainedRunner)
    data = {"x": np.ones((2, 4, 3), "float32")}
    expected = dict(zip(["hidden", "y"], model(data["x"]), strict=True))
    models.assert_same(run(data), expected)
    assert run.variable_digests() == reference_runner(model).variable_digests()


class Unregistered(keras.layers.Layer):
    def call(self, x):
        return x


def of_layer(cls, *arguments):
    return models.of(cls(*arguments), (3,))


@pytest.mark.parametrize("cls", [own_layers.Doubled, Unregistered])
def test_a_layer_is_imported_from_its_module(transfer, cls):
    assert type(transfer(of_layer(cls)).layers[-1]) is cls


def test_a_class_of_the_main_program_is_refused(values, monkeypatch):
    monkeypatch.setattr(Unregistered, "__module__", "__main__")
    message = '"Unregistered" is defined in __main__, .* Define it at the top level of a module'
    with pytest.raises(ValueError, match=message):
        values.convert(of_layer(Unregistered))


def test_a_class_inside_a_function_is_refused(values):
    class Inside(keras.layers.Layer):
        def call(self, x):
            return x

    with pytest.raises(ValueError, match=r'"Inside" is defined in tests.*, inside a function'):
        values.convert(of_layer(Inside))


def test_a_loss_inside_a_function_is_not_needed(values, monkeypatch):
    def own_loss(y, outputs):
        return keras.ops.mean((y - outputs) ** 2)

    monkeypatch.setitem(keras.saving.get_custom_objects(), "own_loss", own_loss)
    model = models.dense()
    model.compile("sgd", loss=own_loss)
    values.convert(model)


def test_a_registered_activation_of_a_module_is_imported(transfer):
    model = models.of(keras.layers.Dense(1, activation=own_layers.cubed), (3,))
    assert transfer(model).layers[-1].activation is own_layers.cubed


def test_a_model_that_cannot_be_saved_is_refused(values):
    with pytest.raises(ValueError, match=r"cannot be saved, so .* on TensorFlow: .*no config"):
        values.convert(of_layer(own_layers.Unconfigured, 3))
