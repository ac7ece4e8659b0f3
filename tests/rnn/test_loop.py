"""The uncompiled loop over time: dynamic sizes, options of the norms, precision.

test_equations.py compares its outputs and gradients with the equations, and test_cell.py with
keras.layers.RNN.
"""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, KINDS, LSTM, SIMPLE_RNN, UNITS

LAYER_NORM = LayerNormalization(epsilon=1e-3)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_mask = pytest.mark.parametrize("mask", kinds.MASKS.values(), ids=kinds.MASKS)


def build(kind, norm, **kwargs):
    """Build a float64 layer with random weights and moving statistics."""
    layer = kinds.build(kind, norm, **kwargs)
    kinds.randomize_statistics(layer)
    return layer


def test_inference_in_a_graph_equals_eager_training_for_per_sample_norms():
    """Gradients are equal too: saliency maps and a frozen `base(x, training=False)` need them."""
    layer = kinds.build(SIMPLE_RNN, LAYER_NORM, compiled=False)
    x = kinds.cast(kinds.inputs(3, 17))  # two blocks of 8 timesteps and a last one
    mask = np.random.default_rng(0).random((3, 17)) < 0.7
    in_graph = tf.function(kinds.train, autograph=False)  # only a graph scans in blocks
    expected = kinds.train(layer, x, mask=mask, training=True)
    kinds.assert_close(in_graph(layer, x, mask=mask, training=False), expected)


def test_one_graph_takes_any_batch_size_and_length():
    kind, layer = LSTM, build(LSTM, kinds.NORMS["timestep"])
    dynamic = tf.TensorSpec((None, None, FEATURES), "float64")
    graph = tf.function(layer, input_signature=[dynamic], autograph=False)
    for batch, time in [(1, 1), (2, 7), (5, 8), (17, 17)]:
        x = kinds.inputs(batch, time)
        states = [np.zeros((batch, UNITS))] * kind.states
        expected = kinds.reference(layer.cell, kinds.values(layer.cell), x, states)
        kinds.assert_close(graph(x), expected)


def test_large_means_of_states_lose_few_digits():
    """h U and c have a mean of 1000; float32 numbers of that size have a precision of 6e-5."""
    layer = kinds.build(LSTM, LayerNormalization(), dtype="float32")
    layer.cell.recurrent_kernel.assign_add(1000.0 * kinds.draw(UNITS, 1))
    h, c = kinds.initial_states(LSTM)
    x, *states = (a.astype("float32") for a in (kinds.inputs(), h, c + 1000.0))
    expected = kinds.reference(layer.cell, kinds.values(layer.cell), x, states)
    actual = layer(x, initial_state=kinds.cast(states, "float32"))
    kinds.assert_close(actual[0], expected[0], 2e-4)
