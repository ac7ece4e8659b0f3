"""Models of Keras' own recurrent layers: what is exported in their place, and that it is equal."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import Step, check, export_saved_model, export_tflite, open_runner
from keras_norm.export.comparing.reference import Reference
from keras_norm.export.exporting import twins
from keras_norm.export.exporting.twins import unrolled, with_twins
from keras_norm.export.runners import KerasRunner
from keras_norm.walk import named_layers
from tests.export import models


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def randomized(model):
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(0, 0.3, w.shape).astype(w.dtype) for w in model.get_weights()])
    return model


def sequential(*layers, shape=(None, 3)):
    return randomized(keras.Sequential([keras.Input(shape, name="x"), *layers]))


@keras.saving.register_keras_serializable(package="tests")
class Decay(keras.layers.Layer):
    """A cell of a user's own, whose output is none of its states."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units, self.state_size, self.output_size = units, units, 2

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.units))

    def call(self, x, states):
        h = 0.5 * states[0] + keras.ops.matmul(x, self.w)
        return h[:, :2], [h]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def lstm(**options):
    return keras.layers.LSTM(4, return_sequences=True, **options)


LAYERS = {
    "LSTM": lstm,
    "LSTM without bias, hard": lambda: lstm(use_bias=False, recurrent_activation="hard_sigmoid"),
    "GRU": lambda: keras.layers.GRU(4, return_sequences=True),
    "GRU, reset before": lambda: keras.layers.GRU(4, return_sequences=True, reset_after=False),
    "SimpleRNN backward": lambda: keras.layers.SimpleRNN(
        4, return_sequences=True, go_backwards=True
    ),
    "Bidirectional": lambda: keras.layers.Bidirectional(keras.layers.GRU(4, dropout=0.3)),
    "RNN": lambda: keras.layers.RNN(keras.layers.LSTMCell(4), go_backwards=True),
    "stacked cells": lambda: keras.layers.RNN(
        [keras.layers.LSTMCell(4), keras.layers.GRUCell(3)], return_sequences=True
    ),
    "cell of ours": lambda: keras.layers.RNN(keras_norm.BatchNormSimpleRNNCell(4, 3)),
    "cell of the user's": lambda: keras.layers.RNN(Decay(4), return_sequences=True),
    "zero output": lambda: keras.layers.RNN(
        Decay(4), return_sequences=True, zero_output_for_mask=True
    ),
    "unrolled": lambda: keras.layers.RNN(keras.layers.GRUCell(3), unroll=True),
}


def masked(layer):
    x = keras.Input((5 if getattr(layer, "unroll", False) else None, 3), name="x")
    return randomized(keras.Model(x, layer(keras.layers.Masking()(x))))


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_twin_computes_the_same_under_a_mask(make, monkeypatch):
    monkeypatch.setattr(Reference, "verify", lambda *_, **__: None)  # so does the export
    model = masked(make())
    twin = with_twins(model)
    kinds = {type(layer) for _, layer in named_layers(twin)}
    assert kinds.isdisjoint(twins.TWINS)
    x = draw(4, 5, 3)
    x[0, :2], x[1, 3:], x[2, 2], x[3] = 0, 0, 0, 0
    np.testing.assert_allclose(twin(x), model(x), rtol=1e-5, atol=1e-6)


def test_a_nested_model_has_twins_too():
    model = sequential(sequential(lstm(), keras.layers.GRU(2, return_sequences=True)), lstm())
    twin = with_twins(model)
    assert {type(layer) for _, layer in named_layers(twin)}.isdisjoint(twins.TWINS)
    np.testing.assert_allclose(twin(draw(2, 5, 3)), model(draw(2, 5, 3)), rtol=1e-5, atol=1e-6)


def encoder_and_decoder():
    """As in a translator: the states of one layer are those that another starts from."""
    source, target = (keras.Input((None, 3), name=name) for name in ("source", "target"))
    _, *states = keras.layers.LSTM(4, return_state=True, name="encoder")(source)
    path, h, c = keras.layers.LSTM(4, return_sequences=True, return_state=True, name="decoder")(
        target, initial_state=states
    )
    return randomized(keras.Model([source, target], {"path": path, "h": h, "c": c}))


def test_names_and_the_model_stay_as_they_are():
    model = encoder_and_decoder()
    nodes = [len(layer._inbound_nodes) for layer in model.layers]
    twin = with_twins(model)
    assert [len(layer._inbound_nodes) for layer in model.layers] == nodes
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]
    assert {type(layer) for layer in model.layers} == {
        keras.layers.InputLayer,
        keras.layers.LSTM,
    }


def test_a_model_without_such_layers_is_its_own_twin():
    model = models.tagger()
    assert with_twins(model) is model


class Mine(keras.layers.LSTM):
    """A subclass may compute anything."""


def test_a_subclass_stays():
    model = sequential(Mine(2))
    assert with_twins(model) is model


def test_a_subclass_is_unrolled_where_its_time_is_fixed():
    model = keras.Sequential([keras.Input((5, 3)), Mine(2, name="mine")])
    (layer,) = unrolled(model).layers
    assert (type(layer), layer.unroll) == (Mine, True)
    assert not model.get_layer("mine").unroll
    open_time = sequential(Mine(2))
    assert unrolled(open_time) is open_time


def test_what_was_adapted_is_kept():
    normalization = keras.layers.Normalization()
    normalization.adapt(5.0 + 2.0 * draw(40, 5, 3))
    model = keras.Sequential([keras.Input((None, 3)), normalization, lstm()])
    x = draw(2, 4, 3)
    np.testing.assert_allclose(with_twins(model)(x), model(x), rtol=1e-5, atol=1e-6)


def test_texts_and_their_vocabulary(tmp_path):
    vectorizer = keras.layers.TextVectorization(output_sequence_length=4)
    vectorizer.adapt(["the cat sat", "a cat ran", "the dog"])
    model = keras.Sequential(
        [
            keras.Input((), dtype="string", name="text"),
            vectorizer,
            keras.layers.Embedding(10, 3, mask_zero=True),
            keras.layers.SimpleRNN(4, name="rnn"),
        ]
    )
    texts = np.array(["the cat", "a dog sat"], object)
    served = tf.saved_model.load(export_saved_model(model, tmp_path / "model", step=False))
    answer = served.signatures["serving_default"](text=tf.constant(texts))
    models.assert_same(answer, {"rnn": np.array(model(tf.constant(texts)))})


class Unsaid(keras.layers.Layer):
    """Keeps what its config does not say."""

    factor = 1.0

    def call(self, x):
        return self.factor * x


def test_a_model_that_its_config_does_not_tell_is_exported_as_it_is(caplog):
    unsaid = Unsaid()
    unsaid.factor = 3.0
    model = sequential(unsaid, keras.layers.GRU(2))
    assert with_twins(model) is model
    assert "keeps what its config does not say" in caplog.text


# Exports ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A layer that becomes one of ours and one that keeps its cell, masked, and their two files."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(7, 4, mask_zero=True)(ids)
    x = keras.layers.RNN(Decay(4), return_sequences=True, zero_output_for_mask=True)(x)
    x, h = keras.layers.SimpleRNN(3, return_sequences=True, return_state=True)(x)
    model = randomized(keras.Model(ids, {"y": x, "last": h}))
    folder = tmp_path_factory.mktemp("both")
    files = (
        export_saved_model(model, folder / "m", step=True),
        export_tflite(model, folder / "m.tflite", step=True),
    )
    return model, files


def padded_ids(batch, time):
    ids = np.random.default_rng(time).integers(1, 7, (batch, time)).astype("int32")
    ids[:, time // 2 + 1 :] = 0
    return {"ids": ids}


def test_both_formats_run_at_any_batch_and_length(both):
    model, files = both
    keras_run = KerasRunner(model)
    for file in files:
        with open_runner(file) as run:
            for batch, time in itertools.product((1, 17), (1, 11)):
                models.assert_same(run(padded_ids(batch, time)), keras_run(padded_ids(batch, time)))


def test_both_formats_have_the_step(both):
    model, files = both
    expected, step = KerasRunner(model)(padded_ids(2, 6)), Step(model)
    for file in files:
        with open_runner(file, signature_name="step") as run:
            models.assert_same(step.over_time(run, padded_ids(2, 6)), expected)


def test_further_signatures_read_the_users_own_layers(tmp_path):
    model = sequential(keras.layers.SimpleRNN(4, return_sequences=True), keras.layers.Dense(2))

    def hidden(inputs):
        return {"h": model.layers[0](inputs["x"])}

    path = export_saved_model(model, tmp_path / "m", signatures={"hidden": hidden}, step=False)
    x = draw(2, 5, 3)
    with open_runner(path, signature_name="hidden") as run:
        models.assert_same(run({"x": x}), {"h": np.array(model.layers[0](x))})


# Operations of one device -----------------------------------------------------------------------


def test_a_file_for_gpus_alone_fails_whoever_wrote_it(tmp_path):
    """What Keras writes where an LSTM was trained on a GPU."""

    class OnGPU(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.float32, name="x")])
        def serve(self, x):
            zeros = tf.zeros([1, tf.shape(x)[1], 4])
            options = {"rnn_mode": "lstm", "is_training": False}
            y = tf.raw_ops.CudnnRNNV3(
                input=x,
                input_h=zeros,
                input_c=zeros,
                params=tf.zeros([200]),
                sequence_lengths=tf.fill([tf.shape(x)[0]], 5),
                **options,
            )
            return {"lstm": y.output}

    module = OnGPU()
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=module.serve)
    report = check(sequential(lstm(name="lstm")), [tmp_path / "m"], draw(4, 5, 3))
    assert not report
    assert any("CudnnRNNV3" in str(failure) for failure in report.failures)


def test_a_lookup_of_an_embedding_is_one_operation():
    ids = keras.Input((None,), dtype="int32", name="ids")
    embedded = keras.layers.Embedding(9, 4, mask_zero=True, name="table")(ids)
    model = randomized(keras.Model(ids, keras.layers.LSTM(4)(embedded)))
    twin = with_twins(model, None, twins.TWINS | twins.LOOKUPS)
    table = twin.get_layer("table")
    data = {"ids": np.random.default_rng(0).integers(0, 9, (3, 5))}
    models.assert_same(KerasRunner(twin)(data), KerasRunner(model)(data))
    call = tf.function(table, autograph=False)
    graph = call.get_concrete_function(tf.TensorSpec((None, None), "int32")).graph
    types = {operation.type for operation in graph.get_operations()}
    assert not types & {"Less", "Select", "SelectV2"}
