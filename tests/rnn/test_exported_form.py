"""The form that is exported to TFLite, as TensorFlow runs it."""

import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization
from keras_norm.ops.time_loop import portable_loops
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, KINDS, LSTM, UNITS

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_mask = pytest.mark.parametrize("mask", kinds.MASKS.values(), ids=kinds.MASKS)


def build(kind, norm, **kwargs):
    """A float64 layer with random weights and moving statistics."""
    layer = kinds.build(kind, norm, **kwargs)
    kinds.randomize_statistics(layer)
    return layer


def assert_follows_oracle(layer, mask, atol=1e-10, **options):
    with portable_loops():
        kinds.assert_follows_oracle(layer, mask, atol, **options)


@every_kind
@every_mask
@pytest.mark.parametrize("norm", kinds.NORMS.values(), ids=kinds.NORMS)
def test_every_norm_follows_the_oracle(kind, norm, mask):
    assert_follows_oracle(build(kind, norm), mask)


@every_kind
@pytest.mark.parametrize("norm", ["layer", "timestep"])
@pytest.mark.parametrize(
    "options", [{"go_backwards": True}, {"zero_output_for_mask": True}], ids=str
)
def test_directions_and_outputs_of_masked_steps(kind, norm, options):
    assert_follows_oracle(build(kind, kinds.NORMS[norm], **options), kinds.MASK, **options)


@every_mask
@pytest.mark.parametrize(
    "norm", [LayerNormalization(), {"cell_norm": LayerNormalization()}], ids=["all", "one gate"]
)
def test_joint_form_follows_the_oracle(norm, mask):
    assert_follows_oracle(build(LSTM, norm, norm_form="joint"), mask)


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


@every_kind
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_give_what_the_plain_form_gives(kind, options):
    layer, x = build(kind, **options), kinds.inputs()
    expected = layer(x, mask=kinds.MASK)
    with portable_loops():
        kinds.assert_close(layer(x, mask=kinds.MASK), expected)


@every_kind
@pytest.mark.parametrize("return_sequences", [True, False])
def test_any_batch_and_length_in_one_graph(kind, return_sequences):
    layer = build(kind, LayerNormalization(), return_sequences=return_sequences)
    unknown = tf.TensorSpec((None, None, FEATURES), "float64")
    with portable_loops():
        graph = tf.function(layer, input_signature=[unknown], autograph=False)
        graph.get_concrete_function()
    for batch, time in [(2, 70), (1, 1), (3, 33)]:
        x = kinds.inputs(batch, time)
        kinds.assert_close(graph(x), layer(x))


def test_large_means_cost_few_digits():
    """Of a product and of c: a float32 layer is as near as float32 numbers of 1000 are."""
    layer = kinds.build(LSTM, LayerNormalization(), dtype="float32")
    layer.cell.recurrent_kernel.assign_add(1000.0 * kinds.draw(UNITS, 1))
    h, c = kinds.initial_states(LSTM)
    x, *states = (a.astype("float32") for a in (kinds.inputs(), h, c + 1000.0))
    expected = kinds.reference(layer.cell, kinds.values(layer.cell), x, states)
    with portable_loops():
        actual = layer(x, initial_state=kinds.cast(states, "float32"))
    kinds.assert_close(actual[0], expected[0], 2e-4)


def test_training_is_the_plain_form():
    layer, x = build(LSTM, kinds.BATCH_NORMS["timestep"]), kinds.inputs()
    other = build(LSTM, kinds.BATCH_NORMS["timestep"])
    expected = other(x, training=True)
    with portable_loops():
        kinds.assert_close(layer(x, training=True), expected)
    kinds.assert_close(layer.non_trainable_weights, other.non_trainable_weights)


def test_weights_are_left_as_they_are():
    layer = build(LSTM, LayerNormalization())
    before = layer.get_weights()
    with portable_loops():
        layer(kinds.inputs())
    for weight, was in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, was)
