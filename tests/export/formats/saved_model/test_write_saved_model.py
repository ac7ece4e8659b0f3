"""The signatures of a SavedModel, their outputs, and the tables that they read."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import export_saved_model, open_runner
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from tests.export import models
from tests.export.own_layers import Counter


def test_a_time_distributed_of_one_length_is_exported(tmp_path):
    each = keras.layers.TimeDistributed(keras.layers.Dense(2), name="each")
    model = keras.Sequential([keras.Input((5, 4)), each])
    x = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
    with open_runner(export_saved_model(model, tmp_path / "m")) as run:
        (y,) = run(dict.fromkeys(run.inputs, x)).values()
    np.testing.assert_allclose(y, each.layer(x), rtol=1e-5, atol=1e-6)


def test_the_signature_has_names_and_dynamic_dimensions(tagger_saved_model):
    inputs, outputs = SavedModelFile(tagger_saved_model).read_signature()
    assert {n: (t.shape, t.dtype) for n, t in inputs.items()} == {
        "features_of_it": ((None, None, 3), "float32"),
        "file": ((None, None), "int32"),
    }
    assert {n: t.shape for n, t in outputs.items()} == {
        "echo": (None, None, 3),
        "mean": (None, 2),
        "tags_all": (None, None, 2),
    }


def test_the_log_does_not_name_the_temporary_path(tmp_path, caplog):
    """In a notebook, TensorFlow prints the messages of this level."""
    caplog.set_level("INFO", logger="tensorflow")
    export_saved_model(models.tagger(), tmp_path / "m")
    assert "Assets" not in caplog.text


def drawn_or_written(path):
    """List the nodes that draw random numbers or write to a variable, except the loader's."""
    return {
        node
        for op, nodes in SavedModelFile(path).ops.items()
        if "Random" in op or "Assign" in op
        for node in nodes
        if not re.fullmatch(r"(Variable(_\d+)?/)?Assign\w*", node)
    }


@pytest.mark.parametrize(
    "layer",
    [
        keras.Sequential([keras.layers.Dropout(0.5), keras.layers.BatchNormalization()]),
        keras_norm.LayerNormSimpleRNN(2, dropout=0.5, recurrent_dropout=0.5),
        keras.layers.SimpleRNN(2, dropout=0.5, recurrent_dropout=0.5),
        keras.layers.RNN(keras.layers.SimpleRNNCell(2, dropout=0.5, recurrent_dropout=0.5)),
    ],
    ids=["layers", "ours", "Keras'", "of Keras' cell"],
)
def test_a_file_draws_no_dropout_and_writes_to_no_variable(layer, tmp_path):
    model = keras.Sequential([keras.Input((None, 3)), layer])
    assert drawn_or_written(export_saved_model(model, tmp_path / "model", step=False)) == set()


def test_a_saved_model_computes_the_bits_of_predict_and_evaluate(tmp_path):
    layers = {
        "LN-LSTM": keras_norm.LayerNormLSTM(5, return_sequences=True),
        "BN-SimpleRNN": keras_norm.BatchNormSimpleRNN(4, max_timesteps=3),
        "GRU": keras_norm.NormGRU(4),
    }
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, {name: layer(inputs) for name, layer in layers.items()})
    model.compile("sgd", dict.fromkeys(layers, "mae"))
    served = tf.saved_model.load(export_saved_model(model, tmp_path / "model", step=False))
    for batch, time in [(1, 16), (40, 21)]:
        x = np.random.default_rng(time).normal(size=(batch, time, 3)).astype("float32")
        predicted = model.predict(x, batch_size=batch, verbose=0)
        answers = served.signatures["serving_default"](x=x)
        for name, answer in answers.items():
            expected = predicted[name.replace("_", "-")]
            np.testing.assert_array_equal(answer, expected, err_msg=name)
    assert max(model.evaluate(x, predicted, batch_size=batch, verbose=0)) == 0


def fails(inputs):
    raise KeyError("speed")


@pytest.mark.parametrize(
    ("signatures", "message"),
    [
        ([dict], "signatures must be a dict of functions by name; received list"),
        ({3: dict}, "must be strings that do not begin with two underscores; received 3"),
        ({"": dict}, "must be strings that do not begin with two underscores; received ''"),
        ({"__saved_model_init_op": dict}, "must be strings that do not begin with two underscores"),
        ({"a": 5}, 'the signature "a" must be a function; received 5'),
        ({"a": fails}, "\"a\" fails: KeyError: 'speed'. The exporter calls the function with one"),
        ({"a": lambda x, y: x}, '"a" fails: TypeError: .* The exporter calls the function with'),
        ({"step": dict}, "reserves the signature name step; choose"),
        ({"serving_default": dict}, "reserves the signature name serving_default; choose"),
        ({"a": lambda x: None}, '"a" must return a dict of tensors by name; received None'),
        ({"a": lambda x: {"y": {"z": x["x"]}}}, '"a" must return a dict of tensors by name'),
    ],
)
def test_wrong_signatures_are_refused(signatures, message, tmp_path):
    model = models.of(keras.layers.Dense(2), (3,))
    with pytest.raises(ValueError, match=message):
        export_saved_model(model, tmp_path / "out", signatures=signatures)
    assert not list(tmp_path.iterdir())


def test_outputs_that_change_from_call_to_call_are_warned_of(tmp_path, caplog):
    export_saved_model(models.of(Counter(is_added=True), (3,)), tmp_path / "out")
    assert "with equal inputs return different outputs" in caplog.text
    assert "or changes a variable" in caplog.text


class Nothing(keras.layers.Layer):
    """Returns None from its call, but a shape from its symbolic call."""

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape)

    def call(self, x):
        return None


def test_an_output_of_none_is_named(tmp_path):
    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, Nothing(name="scores")(inputs), name="m")
    with pytest.raises(ValueError, match='"m" returns None for the output scores'):
        export_saved_model(model, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def table():
    """Make a lookup table from 0 and 1 to 10 and 11."""
    keys = tf.constant([0, 1], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, keys + 10), -1)


@keras.saving.register_keras_serializable()
class Looked(keras.layers.Layer):
    """A layer that stores a lookup table in a list, in a dict or in a module."""

    def __init__(self, held, **kwargs):
        super().__init__(**kwargs)
        self.held = {"list": [table()], "dict": {"a": table()}, "module": tf.Module()}[held]
        if held == "module":
            self.held.table = table()

    def call(self, x):
        if isinstance(self.held, tf.Module):
            return self.held.table.lookup(x)
        return next(iter(self.held.values() if "a" in self.held else self.held)).lookup(x)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, "int64")


@pytest.mark.parametrize("held", ["list", "dict", "module"])
def test_a_table_in_a_list_a_dict_or_a_module_is_saved(held, tmp_path):
    model = models.of(Looked(held, name="y"), (), dtype="int64")
    path = export_saved_model(model, tmp_path / "model")
    served = tf.saved_model.load(str(path)).signatures["serving_default"]
    assert served(x=tf.constant([1, 0, 5], tf.int64))["y"].numpy().tolist() == [11, 10, -1]


def test_a_table_outside_the_layers_is_refused(tmp_path):
    model, elsewhere = models.dense(), table()
    reads = {"other": lambda inputs: {"y": elsewhere.lookup(tf.cast(inputs["x"], tf.int64))}}
    with pytest.raises(ValueError, match="make it an attribute of a layer"):
        export_saved_model(model, tmp_path / "model", signatures=reads)
    assert list(tmp_path.iterdir()) == []
