"""Which sequence form runs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.ops.fast import warmth
from keras_norm.ops.time_loop import portable_loops
from keras_norm.rnn import fast_form
from keras_norm.rnn.forms import use_form
from tests.rnn import kinds

FORM = "auto"


@pytest.fixture
def layer(request):
    """A layer that is not among those of other tests, as shapes are counted for each recurrence."""
    units = 11 + abs(hash(request.node.name)) % 1000
    layer = keras_norm.LayerNormGRU(units)
    layer.build((None, None, 2))
    return layer


@pytest.fixture
def marked(monkeypatch):
    """Let the fast form give NaN, so that its outputs are known."""

    def nan(cell, spec, sequences, states, *args):
        return None, [state * np.nan for state in states], {}

    monkeypatch.setattr(fast_form, "fast_form", nan)


def is_fast(y):
    return bool(np.isnan(y).all())


def draw(batch, time):
    return tf.constant(kinds.draw(batch, time, 2), "float32")


@pytest.mark.parametrize("graph", [True, False])
def test_a_shape_is_compiled_for_when_it_has_come_by_often(layer, marked, monkeypatch, graph):
    monkeypatch.setattr(warmth, "HOT", 12)
    call = tf.function(layer, reduce_retracing=True) if graph else layer
    forms = [is_fast(call(draw(3, 4))) for _ in range(4)]
    assert forms == [False, False, True, True]
    assert not is_fast(call(draw(2, 4)))


def test_unknown_batch_and_time_are_looked_at_in_every_call(layer, marked, monkeypatch):
    """Lengths of 5 and 6 are compiled for at once."""
    monkeypatch.setattr(warmth, "HOT", 18)
    call = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 2])])
    sizes = [(3, 5), (3, 6), (3, 9), (3, 5), (3, 6)]
    assert [is_fast(call(draw(*size))) for size in sizes] == [False, False, False, True, True]


def test_training_through_the_choice(monkeypatch):
    """Before and after the switch, results and gradients are those of the plain form."""
    monkeypatch.setattr(warmth, "HOT", 12)
    layer = kinds.build(kinds.LSTM, keras_norm.LayerNormalization())

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 2], "float64"),
            tf.TensorSpec([None, None], "bool"),
        ],
        autograph=False,
    )
    def train(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            results = layer(x, mask=mask, training=True)
            loss = tf.add_n([tf.reduce_sum(tf.sin(result)) for result in results])
        return results, tape.gradient(loss, [x, *[v.value for v in layer.trainable_variables]])

    x, mask = kinds.cast(kinds.inputs(time=3)), tf.constant(kinds.MASK[:, :3])
    first, *others = [train(x, mask) for _ in range(6)]
    for other in others:
        kinds.assert_close(other, first)


@pytest.mark.parametrize("hot", [False, True])
def test_gradients_of_higher_order(layer, monkeypatch, hot):
    """The plain form gives them, under the choice as it stands: two tapes, and forward mode."""
    monkeypatch.setattr(warmth, "HOT", 1 if hot else 4000)

    @tf.function
    def penalty(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(layer(x, training=True) ** 2)
            norm = tf.reduce_sum(inner.gradient(loss, x) ** 2)
        return outer.gradient(norm, x)

    def tangent(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = layer(x)
        return accumulator.jvp(y)

    x = draw(3, 4)
    with use_form("plain"):
        expected = penalty.python_function(x), tangent(x)
    np.testing.assert_allclose(penalty(x), expected[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(tangent(x), expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("hot", [False, True])
def test_a_loop_of_the_graph_around_a_layer(monkeypatch, hot):
    monkeypatch.setattr(warmth, "HOT", 1 if hot else 4000)
    layer = keras_norm.LayerNormGRU(2, return_sequences=True)
    layer.build((None, None, 2))

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(3):
                y = layer(y, mask=tf.ones([3, 4], "bool"), training=True)
            loss = tf.reduce_sum(y**2)
        return tape.gradient(loss, x)

    x = draw(3, 4)
    with use_form("plain"):
        expected = tf.function(gradient.python_function)(x)
    np.testing.assert_allclose(gradient(x), expected, rtol=1e-3, atol=1e-5)


def test_jit_compiled_callers_get_the_fast_form_at_once(layer, marked):
    assert is_fast(tf.function(layer, jit_compile=True)(draw(3, 4)))


def test_loops_for_tflite_are_plain(layer, marked, monkeypatch):
    monkeypatch.setattr(warmth, "HOT", 1)
    with portable_loops():
        assert not is_fast(tf.function(layer)(draw(3, 4)))


def test_unrolled_loops_are_plain(marked, monkeypatch):
    monkeypatch.setattr(warmth, "HOT", 1)
    assert not is_fast(keras_norm.LayerNormGRU(3, unroll=True)(draw(3, 4)))


def test_a_cell_with_a_step_of_its_own_is_plain(marked, monkeypatch):
    monkeypatch.setattr(warmth, "HOT", 1)

    class Halved(keras_norm.NormGRUCell):
        def step(self, *args):
            return [0.5 * h for h in super().step(*args)]

    class HalvedGRU(keras_norm.NormGRU):
        cell_class = Halved

    assert is_fast(keras_norm.NormGRU(3)(draw(3, 4)))
    assert not is_fast(HalvedGRU(3)(draw(3, 4)))


def test_replicas_are_plain(layer, marked, monkeypatch):
    monkeypatch.setattr(warmth, "HOT", 1)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        assert not is_fast(layer(draw(3, 4)))


def test_concrete_functions_are_plain(layer, marked, monkeypatch):
    """They are what converters take."""
    monkeypatch.setattr(warmth, "HOT", 1)
    call = tf.function(layer).get_concrete_function(tf.TensorSpec([3, 4, 2]))
    assert not is_fast(call(draw(3, 4)))


def test_saved_models_hold_the_plain_form(layer, tmp_path):
    """Keras' own exporter, too, writes a model that needs no XLA and no memory of shapes."""
    model = keras.Sequential([keras.Input((None, 2)), layer])
    model.export(str(tmp_path / "model"), verbose=False)
    graph = (tmp_path / "model" / "saved_model.pb").read_bytes()
    assert b"XlaMustCompile" not in graph
    assert b"keras_norm/Spec" not in graph
