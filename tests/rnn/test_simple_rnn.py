"""Compare NormSimpleRNN with the equation of Ba et al. and with keras.layers.SimpleRNN."""

import pytest

from keras_norm import LayerNormalization
from tests.rnn import kinds
from tests.rnn.kinds import MASKS, PER_SAMPLE_NORMS, SIMPLE_RNN


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_outputs_and_states_match_the_equations(norm, mask):
    kinds.assert_follows_oracle(kinds.build(SIMPLE_RNN, norm), mask)


@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_training_gradients_match_the_equations(norm):
    kinds.assert_gradients_follow_oracle(kinds.build(SIMPLE_RNN, norm), kinds.MASK)


@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_float32_matches_the_equations_to_1e_5(norm):
    kinds.assert_follows_oracle(kinds.build(SIMPLE_RNN, norm, dtype="float32"), kinds.MASK, 1e-5)


def test_without_bias_outputs_match_the_equations():
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
def test_without_norm_the_layer_equals_keras_simple_rnn(options, training):
    kinds.assert_equals_keras_layer(SIMPLE_RNN, options, training=training)


@pytest.mark.parametrize("options", [{}, {"zero_output_for_mask": True}], ids=str)
def test_without_norm_the_masked_layer_equals_keras_simple_rnn(options):
    kinds.assert_equals_keras_layer(SIMPLE_RNN, options, kinds.MASK)
