"""Compare NormLSTM with the equations of Ba et al. and with keras.layers.LSTM."""

import pytest

from keras_norm import BatchNormLSTM, LayerNormalization, NormLSTM, NormLSTMCell
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import LSTM, MASKS, PER_SAMPLE_NORMS

JOINT = {gate: LayerNormalization() for gate in NormLSTMCell.JOINT_SLOTS}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_outputs_and_states_match_the_equations(norm, mask):
    kinds.assert_follows_oracle(kinds.build(LSTM, norm), mask)


@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_training_gradients_match_the_equations(norm):
    kinds.assert_gradients_follow_oracle(kinds.build(LSTM, norm), kinds.MASK)


@pytest.mark.parametrize("norm", PER_SAMPLE_NORMS.values(), ids=PER_SAMPLE_NORMS)
def test_float32_matches_the_equations_to_1e_5(norm):
    kinds.assert_follows_oracle(kinds.build(LSTM, norm, dtype="float32"), kinds.MASK, 1e-5)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", [LayerNormalization(), JOINT], ids=["template", "dict"])
def test_the_joint_form_normalizes_each_gate_before_the_bias(norm, mask):
    kinds.assert_follows_oracle(kinds.build(LSTM, norm, norm_form="joint"), mask)


def test_gradients_of_the_joint_form_match_the_equations():
    layer = kinds.build(LSTM, LayerNormalization(), norm_form="joint")
    kinds.assert_gradients_follow_oracle(layer, kinds.MASK)


def test_the_joint_form_without_norms_equals_the_separate_form():
    joint, separate = kinds.build(LSTM, norm_form="joint"), kinds.build(LSTM)
    kinds.assert_close(joint(kinds.inputs()), separate(kinds.inputs()), 1e-12)


def test_normalize_carry_passes_the_normalized_state_on():
    layer = kinds.build(LSTM, LayerNormalization(), normalize_carry=True)
    options = {"step_options": {"normalize_carry": True}}
    kinds.assert_follows_oracle(layer, kinds.MASK, **options)
    kinds.assert_gradients_follow_oracle(layer, kinds.MASK, **options)


def test_without_bias_outputs_match_the_equations():
    layer = kinds.build(LSTM, LayerNormalization(), use_bias=False)
    assert layer.cell.bias is None
    kinds.assert_follows_oracle(layer, kinds.MASK)
    kinds.assert_follows_oracle(
        kinds.build(LSTM, LayerNormalization(), use_bias=False, norm_form="joint"), kinds.MASK
    )


@kinds.gated_layer_options
def test_without_norm_the_layer_equals_keras_lstm(options, training):
    kinds.assert_equals_keras_layer(LSTM, options, training=training)


@pytest.mark.parametrize("options", [{}, {"zero_output_for_mask": True}], ids=str)
def test_without_norm_the_masked_layer_equals_keras_lstm(options):
    kinds.assert_equals_keras_layer(LSTM, options, kinds.MASK)


@pytest.mark.parametrize("unit_forget_bias", [True, False])
def test_the_forget_gate_bias_is_initialized_as_in_keras(unit_forget_bias):
    ours, theirs = (
        cls(3, unit_forget_bias=unit_forget_bias) for cls in (NormLSTM, LSTM.keras_layer)
    )
    ours.build((None, None, 2))
    theirs.build((None, None, 2))
    kinds.assert_close([ours.cell.bias], [theirs.cell.bias], 0)


def test_an_unknown_norm_form_raises():
    assert_refused(lambda: NormLSTM(3, norm_form="both"), "norm_form", "both", "separate", "joint")


def test_normalize_carry_with_the_joint_form_raises():
    assert_refused(
        lambda: NormLSTM(3, norm_form="joint", normalize_carry=True), "normalize_carry", "joint"
    )


def test_the_joint_form_of_batch_norm_has_statistics_for_every_gate():
    layer = BatchNormLSTM(3, max_timesteps=kinds.TIME, norm_form="joint", return_sequences=True)
    layer(kinds.inputs(), training=True)
    for slot in NormLSTMCell.JOINT_SLOTS:
        norm = getattr(layer.cell, slot)
        assert (norm.gamma.numpy() == 0.1).all()
        assert not norm.center
        assert norm.update_count.numpy().all()


def test_slots_of_the_separate_form_raise_in_the_joint_form():
    norm = {"state_norm": LayerNormalization()}
    assert_refused(lambda: NormLSTM(3, norm=norm, norm_form="joint"), "state_norm", "forget_norm")
