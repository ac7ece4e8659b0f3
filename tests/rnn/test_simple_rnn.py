"""NormSimpleRNN against the equation of Ba et al. and against keras.layers.SimpleRNN."""

import pytest

from keras_norm import LayerNormalization
from tests.rnn import kinds
from tests.rnn.kinds import MASKS, ROW_NORMS, SIMPLE_RNN


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", ROW_NORMS.values(), ids=ROW_NORMS)
def test_outputs_and_states_are_the_papers(norm, mask):
    kinds.assert_follows_oracle(kinds.build(SIMPLE_RNN, norm), mask)


@pytest.mark.parametrize("norm", ROW_NORMS.values(), ids=ROW_NORMS)
def test_every_gradient_in_training_is_the_papers(norm):
    kinds.assert_gradients_follow_oracle(kinds.build(SIMPLE_RNN, norm), kinds.MASK)


@pytest.mark.parametrize("norm", ROW_NORMS.values(), ids=ROW_NORMS)
def test_float32_keeps_its_digits(norm):
    kinds.assert_follows_oracle(kinds.build(SIMPLE_RNN, norm, dtype="float32"), kinds.MASK, 1e-5)


def test_without_bias():
    layer = kinds.build(SIMPLE_RNN, LayerNormalization(), use_bias=False)
    assert layer.cell.bias is None
    kinds.assert_follows_oracle(layer, kinds.MASK)


@pytest.mark.parametrize(
    ("options", "training"),
    [
        ({}, False),
        ({"activation": "relu"}, False),
        ({"go_backwards": True}, False),
        ({"use_bias": False}, True),
        ({"activation": "relu"}, True),
        ({"unroll": True}, True),
        ({"dropout": 0.4, "seed": 7}, True),
        ({"recurrent_dropout": 0.4, "seed": 7}, True),
        ({"dropout": 0.3, "recurrent_dropout": 0.4, "seed": 7}, True),
    ],
    ids=str,
)
def test_without_norm_it_is_keras_simple_rnn(options, training):
    kinds.assert_equals_keras(SIMPLE_RNN, options, training=training)


@pytest.mark.parametrize("options", [{}, {"zero_output_for_mask": True}], ids=str)
def test_without_norm_it_is_keras_simple_rnn_under_a_mask(options):
    kinds.assert_equals_keras(SIMPLE_RNN, options, kinds.MASK)
