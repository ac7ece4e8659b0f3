"""Keras' layers run in every format, and their outputs do not change."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export import export_saved_model, export_tflite, open_runner
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.layer_replacement import portable_layers
from tests.export import models
from tests.export.own_layers import Decay, Undescribed


def draw(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def randomized(model):
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(0, 0.3, w.shape).astype(w.dtype) for w in model.get_weights()])
    return model


def sequential(*layers, shape=(None, 3)):
    return randomized(models.stack(*layers, shape=shape))


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
    "cell of the user's, backward": lambda: keras.layers.RNN(
        Decay(4), return_sequences=True, go_backwards=True
    ),
    "zero output": lambda: keras.layers.RNN(
        Decay(4), return_sequences=True, zero_output_for_mask=True
    ),
    "unrolled": lambda: keras.layers.RNN(keras.layers.GRUCell(3), unroll=True),
}


def masked(layer):
    x = keras.Input((5 if getattr(layer, "unroll", False) else None, 3), name="x")
    return randomized(keras.Model(x, layer(keras.layers.Masking()(x))))


def graph_of(model, **options):
    """The operations of the exported model, and the traced function."""
    with portable_layers(model, **options):
        function = tf.function(model, autograph=False).get_concrete_function(
            tf.TensorSpec(model.inputs[0].shape, model.inputs[0].dtype)
        )
    return {op.type for op in function.graph.get_operations()}, function


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_portable_layer_has_equal_outputs_under_a_mask_without_the_loop_of_keras(
    make, monkeypatch
):
    model = masked(make())
    x = draw(4, 5, 3)
    x[0, :2], x[1, 3:], x[2, 2], x[3] = 0, 0, 0, 0
    expected = model(x)

    def keras_loop(*args, **kwargs):
        raise AssertionError

    for cls in (keras.layers.RNN, keras.layers.LSTM, keras.layers.GRU):
        if "inner_loop" in vars(cls):
            monkeypatch.setattr(cls, "inner_loop", keras_loop)
    keras_loop.__module__ = "keras.layers"
    with portable_layers(model):
        np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


class DoubledCall(keras.layers.LSTM):
    """Inherits `inner_loop`, and doubles its outputs in `call`."""

    def call(self, sequences, initial_state=None, mask=None, training=False):
        return 2.0 * super().call(sequences, initial_state, mask, training)


class OwnLoop(keras.layers.LSTM):
    """Overrides `inner_loop`."""

    def inner_loop(self, *args, **kwargs):
        last, outputs, states = super().inner_loop(*args, **kwargs)
        return 2.0 * last, 2.0 * outputs, states


@pytest.mark.parametrize("cls", [DoubledCall, OwnLoop])
@pytest.mark.parametrize("time", [None, 5])
def test_the_outputs_of_a_subclass_do_not_change(cls, time):
    """An overridden loop is unrolled if the number of timesteps is static."""
    model = sequential(cls(2), shape=(time, 3))
    expected = model(draw(2, 5, 3))
    operations, function = graph_of(model)
    if cls is OwnLoop:
        assert bool(operations & {"While", "StatelessWhile"}) == (time is None)
    np.testing.assert_allclose(function(draw(2, 5, 3)), expected, rtol=1e-5, atol=1e-6)


class Minimal(keras.layers.Layer):
    """The cell of Keras' documentation, which has no `output_size`."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.units))
        self.u = self.add_weight(shape=(self.units, self.units))

    def call(self, x, states):
        h = keras.ops.tanh(keras.ops.matmul(x, self.w) + keras.ops.matmul(states[0], self.u))
        return h, [h]


# Models that cannot be rebuilt from their configuration ------------------------------------------


class Holder(keras.layers.Layer):
    """Contains a recurrence that its configuration does not describe."""

    def __init__(self):
        super().__init__()
        self.recurrent = keras.layers.SimpleRNN(4, return_sequences=True)

    def build(self, shape):
        self.recurrent.build(shape)

    def call(self, x):
        return self.recurrent(x)


OFFSET = tf.constant(0.5)


def test_a_model_that_cannot_be_rebuilt_is_exported(tmp_path):
    inputs = keras.Input((6, 3), name="x")
    undescribed = Undescribed()
    undescribed.factor = 3.0
    log = keras.layers.Lambda(lambda z: tf.math.log(z * z + OFFSET), output_shape=(6, 3))
    shapeless = keras.layers.Lambda(lambda z: 2.0 * z)
    h = keras.layers.SimpleRNN(4)(shapeless(log(undescribed(inputs))))
    outputs = {
        "function": keras.layers.Dense(2, activation=tf.nn.softmax)(h),
        "holder": Holder()(inputs),
        "minimal": keras.layers.RNN(Minimal(4))(inputs),
    }
    model = randomized(keras.Model(inputs, outputs))
    path = export_tflite(model, tmp_path / "model.tflite", step=False)
    with open_runner(path) as run:
        for batch in (1, 5):
            x = {"x": draw(batch, 6, 3)}
            models.assert_same(run(x), KerasRunner(model)(x))


# Exports -----------------------------------------------------------------------------------------


def test_one_lookup_traces_an_embedding_as_one_operation():
    ids = keras.Input((None,), dtype="int32", name="ids")
    embedded = keras.layers.Embedding(9, 4, mask_zero=True, name="table")(ids)
    model = randomized(keras.Model(ids, embedded))
    data = np.random.default_rng(0).integers(0, 9, (3, 5)).astype("int32")
    expected = model(data)
    operations, function = graph_of(model, one_lookup=True)
    assert not operations & {"Less", "Select", "SelectV2"}
    np.testing.assert_array_equal(function(data), expected)


# TimeDistributed over a dynamic time -------------------------------------------------------------


def test_time_distributed_is_right_at_batch_sizes_other_than_the_length(tmp_path):
    """A convolution on each frame, and a recurrence over the frames."""
    inputs = keras.Input((None, 4, 2), name="x")
    frames = keras.layers.TimeDistributed(keras.layers.Conv1D(3, 2), name="each")(inputs)
    rows = keras.layers.TimeDistributed(keras.layers.Flatten())(frames)
    model = randomized(keras.Model(inputs, keras.layers.SimpleRNN(3, return_sequences=True)(rows)))
    path = export_saved_model(model, tmp_path / "m")
    assert SavedModelFile(path).signatures == ["serving_default", "step"]
    with open_runner(path) as run:
        for batch, time in ((1, 5), (2, 1), (7, 3)):
            x = draw(batch, time, 4, 2)
            expected = np.array(model(x))  # eager: Keras' graph runs as many timesteps as samples
            (actual,) = run({"x": x}).values()
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
