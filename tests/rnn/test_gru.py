"""Compare NormGRU with the equations of Ba et al. (supplement) and with keras.layers.GRU."""

import pytest

from keras_norm import LayerNormalization, NormGRU, NormGRUCell
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import GRU, MASKS, PER_SAMPLE_NORMS, UNITS


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_outputs_and_states_match_the_equations(norm, mask):
    kinds.assert_follows_oracle(kinds.build(GRU, norm), mask)


@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_training_gradients_match_the_equations(norm):
    kinds.assert_gradients_follow_oracle(kinds.build(GRU, norm), kinds.MASK)


@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_float32_matches_the_equations_to_1e_5(norm):
    kinds.assert_follows_oracle(kinds.build(GRU, norm, dtype="float32"), kinds.MASK, 1e-5)


@pytest.mark.parametrize("slot", GRU.slots)
def test_a_norm_in_a_single_slot_matches_the_equations(slot):
    kinds.assert_follows_oracle(kinds.build(GRU, {slot: LayerNormalization()}), kinds.MASK)


def test_reset_before_the_product_matches_the_equations():
    layer = kinds.build(GRU, reset_after=False)
    options = {"step_options": {"reset_after": False}}
    kinds.assert_follows_oracle(layer, kinds.MASK, **options)
    kinds.assert_gradients_follow_oracle(layer, kinds.MASK, **options)


def test_without_bias_outputs_match_the_equations():
    layer = kinds.build(GRU, LayerNormalization(), use_bias=False)
    assert layer.cell.bias is None
    kinds.assert_follows_oracle(layer, kinds.MASK)


@pytest.mark.parametrize("norm", [LayerNormalization(), {"kernel_norm": LayerNormalization()}])
def test_a_normalized_gru_has_one_bias(norm):
    assert kinds.build(GRU, norm).cell.bias.shape == (3 * UNITS,)


def test_a_gru_without_norms_has_the_two_biases_of_keras():
    assert kinds.build(GRU).cell.bias.shape == (2, 3 * UNITS)


def test_regularizers_and_constraints_apply_to_a_normalized_gru():
    layer = kinds.build(
        GRU,
        LayerNormalization(),
        kernel_regularizer="l2",
        recurrent_regularizer="l2",
        bias_regularizer="l2",
        kernel_constraint="non_neg",
        recurrent_constraint="non_neg",
        bias_constraint="non_neg",
    )
    cell = layer.cell
    for weight in (cell.kernel, cell.recurrent_kernel, cell.bias):
        assert weight.regularizer is not None
        assert weight.constraint is not None
    assert len(layer.losses) == 3


@kinds.gated_layer_options
def test_without_norm_the_layer_equals_keras_gru(options, training):
    kinds.assert_equals_keras_layer(GRU, options, training=training)


@pytest.mark.parametrize(
    ("options", "training"),
    [
        ({}, False),
        ({"use_bias": False}, True),
        ({"unroll": True, "go_backwards": True}, True),
        ({"dropout": 0.3, "recurrent_dropout": 0.4, "seed": 7}, True),
    ],
    ids=str,
)
def test_with_reset_before_the_product_the_layer_equals_keras_gru(options, training):
    kinds.assert_equals_keras_layer(GRU, {"reset_after": False, **options}, training=training)


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("options", [{}, {"zero_output_for_mask": True}], ids=str)
def test_without_norm_the_masked_layer_equals_keras_gru(options, reset_after):
    kinds.assert_equals_keras_layer(GRU, {"reset_after": reset_after, **options}, kinds.MASK)


def test_a_failed_build_does_not_change_reset_after():
    cell = NormGRUCell(3, norm=LayerNormalization())
    assert_refused(lambda: cell.build((None, None)), "None")
    assert cell.reset_after


@pytest.mark.parametrize("cls", [NormGRU, NormGRUCell])
def test_a_norm_with_reset_after_false_raises(cls):
    assert_refused(lambda: cls(3, norm=LayerNormalization(), reset_after=False), "reset_after")
    assert not cls(3, norm={"kernel_norm": None}, reset_after=False).reset_after
