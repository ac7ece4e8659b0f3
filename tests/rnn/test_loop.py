"""The loop over time: at inference with its weights folded, in training as TensorFlow has it.

That outputs at inference are the papers' is held in test_lstm.py and its like.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization
from keras_norm.ops.scan import exported_loops
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, KINDS, LSTM, MASK, SIMPLE_RNN, UNITS

LAYER_NORM = LayerNormalization(epsilon=1e-3)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_mask = pytest.mark.parametrize("mask", kinds.MASKS.values(), ids=kinds.MASKS)


def build(kind, norm, **kwargs):
    """A float64 layer with random weights and moving statistics."""
    layer = kinds.build(kind, norm, **kwargs)
    kinds.randomize_statistics(layer)
    return layer


# Training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "norm"),
    [*((kind, "layer") for kind in KINDS), (GRU, "none"), (LSTM, "rms"), (SIMPLE_RNN, "rms")],
    ids=str,
)
def test_gradients_in_training_are_the_papers(kind, norm):
    layer = kinds.build(kind, kinds.ROW_NORMS[norm], compiled=False)
    kinds.assert_gradients_follow_oracle(layer, MASK)


# Inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "norm"),
    [*((kind, "layer") for kind in KINDS), (GRU, "none"), (LSTM, "mixed slots")],
    ids=str,
)
def test_gradients_at_inference_are_the_papers(kind, norm):
    layer = kinds.build(kind, kinds.ROW_NORMS[norm])
    kinds.assert_gradients_follow_oracle(layer, MASK, training=False)


@pytest.mark.parametrize(
    ("kind", "norm"), [(LSTM, LAYER_NORM), (GRU, LAYER_NORM), (SIMPLE_RNN, None)], ids=str
)
def test_inference_is_training_for_norms_of_rows(kind, norm):
    """Its gradients too, on which saliency and a frozen `base(x, training=False)` stand."""
    layer = kinds.build(kind, norm, compiled=False)
    x = kinds.cast(kinds.inputs(3, 17))  # two blocks of timesteps and one left over
    mask = np.random.default_rng(0).random((3, 17)) < 0.7
    in_graph = tf.function(kinds.train, autograph=False)  # which alone has the blocks
    expected = kinds.train(layer, x, mask=mask, training=True)
    kinds.assert_close(in_graph(layer, x, mask=mask, training=False), expected)


@pytest.mark.parametrize(
    ("kind", "norm"), [(LSTM, "timestep"), (GRU, "layer"), (SIMPLE_RNN, "timestep")], ids=str
)
def test_any_batch_and_length_in_one_graph(kind, norm):
    layer = build(kind, kinds.NORMS[norm])
    unknown = tf.TensorSpec((None, None, FEATURES), "float64")
    graph = tf.function(layer, input_signature=[unknown], autograph=False)
    for batch, time in [(1, 1), (2, 7), (5, 8), (2, 9), (17, 17)]:
        x = kinds.inputs(batch, time)
        states = [np.zeros((batch, UNITS))] * kind.states
        expected = kinds.reference(layer.cell, kinds.values(layer.cell), x, states)
        kinds.assert_close(graph(x), expected)


class Doubled(LayerNormalization):
    """A subclass whose call is its own."""

    def call(self, inputs):
        return 2.0 * super().call(inputs)


OPTIONS = {
    "no bias": {"norm": LayerNormalization(), "use_bias": False},
    "no beta": {"norm": LayerNormalization(center=False)},
    "no gamma": {"norm": LayerNormalization(scale=False)},
    "other deviation": {"norm": LayerNormalization(ddof=1, epsilon_placement="outside")},
    "subclass": {"norm": Doubled()},
    "statistics alone": {
        "norm": keras_norm.TimestepBatchNormalization(2, center=False, scale=False),
        "use_bias": False,
    },
}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((GRU, options) for options in OPTIONS),  # whose slots are of all sorts
        (LSTM, "other deviation"),
        (LSTM, "statistics alone"),
        (SIMPLE_RNN, "no beta"),
    ],
    ids=str,
)
def test_what_is_folded_gives_what_the_cell_gives(kind, options):
    layer, x = build(kind, **OPTIONS[options]), kinds.inputs()
    rnn = keras.layers.RNN(layer.cell, return_sequences=True, dtype="float64")
    kinds.assert_close(layer(x)[0], rnn(x))


def test_large_means_cost_few_digits():
    """Of a product and of c: a float32 layer is as near as float32 numbers of 1000 are."""
    layer = kinds.build(LSTM, LayerNormalization(), dtype="float32")
    layer.cell.recurrent_kernel.assign_add(1000.0 * kinds.draw(UNITS, 1))
    h, c = kinds.initial_states(LSTM)
    x, *states = (a.astype("float32") for a in (kinds.inputs(), h, c + 1000.0))
    expected = kinds.reference(layer.cell, kinds.values(layer.cell), x, states)
    actual = layer(x, initial_state=kinds.cast(states, "float32"))
    kinds.assert_close(actual[0], expected[0], 2e-4)


def test_half_precision_is_folded_in_float32():
    layer, rounded = (
        kinds.build(LSTM, LAYER_NORM, dtype=dtype) for dtype in ("mixed_bfloat16", "float32")
    )
    for weight in rounded.weights[:3]:  # those of the norms are kept in float32
        weight.assign(tf.cast(tf.cast(weight.value, "bfloat16"), "float32"))
    x = tf.cast(kinds.inputs(), "bfloat16")
    expected = rounded(tf.cast(x, "float32"))[0]
    kinds.assert_close(layer(x)[0], tf.cast(expected, "bfloat16"), 0)


def test_weights_are_left_as_they_are():
    layer = build(LSTM, LayerNormalization())
    before = layer.get_weights()
    layer(kinds.inputs())
    kinds.assert_close(layer.get_weights(), before, 0)


# For TFLite -------------------------------------------------------------------------------------


@every_kind
@every_mask
@pytest.mark.parametrize("norm", ["layer", "timestep"])
def test_portable_loops_follow_the_oracle(kind, norm, mask):
    with exported_loops("tflite"):
        kinds.assert_follows_oracle(build(kind, kinds.NORMS[norm]), mask)


@pytest.mark.parametrize("return_sequences", [True, False])
def test_portable_loops_take_any_batch_and_length_in_one_graph(return_sequences):
    layer = build(LSTM, LAYER_NORM, return_sequences=return_sequences)
    unknown = tf.TensorSpec((None, None, FEATURES), "float64")
    with exported_loops("tflite"):
        graph = tf.function(layer, input_signature=[unknown], autograph=False)
        graph.get_concrete_function()
    for batch, time in [(2, 70), (1, 1), (3, 33)]:
        x = kinds.inputs(batch, time)
        kinds.assert_close(graph(x), layer(x))


def test_portable_loops_learn_statistics():
    layer, other = (build(LSTM, kinds.BATCH_NORMS["timestep"]) for _ in range(2))
    expected = other(kinds.inputs(), training=True)
    with exported_loops("tflite"):
        kinds.assert_close(layer(kinds.inputs(), training=True), expected)
    kinds.assert_close(kinds.statistics(layer), kinds.statistics(other))


@pytest.mark.parametrize("norm", ["layer", "rms"])
@every_kind
def test_inference_has_products_and_no_squares(kind, norm):
    """TFLite has no SQUARE in 16 bits."""
    layer, before = kinds.build(kind, kinds.ROW_NORMS[norm], unroll=True), LayerNormalization()
    before.build((1, 1, FEATURES))
    with exported_loops("tflite"):
        call = tf.function(lambda x: layer(before(x)), autograph=False)
        graph = call.get_concrete_function(tf.TensorSpec((1, 1, FEATURES), layer.dtype)).graph
    types = {operation.type for operation in graph.get_operations()}
    assert "Mul" in types
    assert not types & {"Square", "SquaredDifference", "Pow"}
