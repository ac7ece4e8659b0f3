"""The uncompiled loop over time: blocks of timesteps, and precision.

test_equations.py compares its outputs and gradients with the equations, test_cell.py with
keras.layers.RNN, and test_norm_rnn.py those of a graph of dynamic sizes with eager outputs.
"""

import numpy as np
import tensorflow as tf

from keras_norm import LayerNormalization
from tests.rnn import kinds
from tests.rnn.kinds import LSTM, SIMPLE_RNN, UNITS

LAYER_NORM = LayerNormalization(epsilon=1e-3)


def test_inference_in_a_graph_equals_eager_training_for_per_sample_norms():
    """Gradients are equal too: saliency maps and a frozen `base(x, training=False)` need them."""
    layer = kinds.build(SIMPLE_RNN, LAYER_NORM, compiled=False)
    x = kinds.cast(kinds.inputs(3, 17))  # two blocks of 8 timesteps and a last one
    mask = np.random.default_rng(0).random((3, 17)) < 0.7
    in_graph = tf.function(kinds.train, autograph=False)  # only a graph scans in blocks
    expected = kinds.train(layer, x, mask=mask, training=True)
    kinds.assert_close(in_graph(layer, x, mask=mask, training=False), expected)


def test_large_means_of_states_lose_few_digits():
    """h U and c have a mean of 1000; float32 numbers of that size have a precision of 6e-5."""
    layer = kinds.build(LSTM, LayerNormalization(), dtype="float32")
    layer.cell.recurrent_kernel.assign_add(1000.0 * kinds.draw(UNITS, 1))
    h, c = kinds.initial_states(LSTM)
    x, *states = (a.astype("float32") for a in (kinds.inputs(), h, c + 1000.0))
    expected = kinds.reference(layer.cell, kinds.values(layer.cell), x, states)
    actual = layer(x, initial_state=kinds.cast(states, "float32"))
    kinds.assert_close(actual[0], expected[0], 2e-4)
