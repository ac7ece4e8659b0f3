"""NormGRU against the equations of Ba et al., supplement, and against keras.layers.GRU."""

import pytest

from keras_norm import LayerNormalization, NormGRU, NormGRUCell
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import GRU, MASKS, ROW_NORMS, UNITS


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", ROW_NORMS.values(), ids=ROW_NORMS)
def test_outputs_and_states_are_the_papers(norm, mask):
    kinds.assert_follows_oracle(kinds.build(GRU, norm), mask)


@pytest.mark.parametrize("norm", ROW_NORMS.values(), ids=ROW_NORMS)
def test_every_gradient_in_training_is_the_papers(norm):
    kinds.assert_gradients_follow_oracle(kinds.build(GRU, norm), kinds.MASK)


@pytest.mark.parametrize("norm", ROW_NORMS.values(), ids=ROW_NORMS)
def test_float32_keeps_its_digits(norm):
    kinds.assert_follows_oracle(kinds.build(GRU, norm, dtype="float32"), kinds.MASK, 1e-5)


@pytest.mark.parametrize("slot", GRU.slots)
def test_one_slot_alone(slot):
    kinds.assert_follows_oracle(kinds.build(GRU, {slot: LayerNormalization()}), kinds.MASK)


def test_reset_before_without_norms():
    layer = kinds.build(GRU, reset_after=False)
    options = {"step_options": {"reset_after": False}}
    kinds.assert_follows_oracle(layer, kinds.MASK, **options)
    kinds.assert_gradients_follow_oracle(layer, kinds.MASK, **options)


def test_without_bias():
    layer = kinds.build(GRU, LayerNormalization(), use_bias=False)
    assert layer.cell.bias is None
    kinds.assert_follows_oracle(layer, kinds.MASK)


@pytest.mark.parametrize("norm", [LayerNormalization(), {"kernel_norm": LayerNormalization()}])
def test_with_norms_there_is_one_bias(norm):
    assert kinds.build(GRU, norm).cell.bias.shape == (3 * UNITS,)


def test_without_norms_there_are_the_two_biases_of_keras():
    assert kinds.build(GRU).cell.bias.shape == (2, 3 * UNITS)


def test_regularizers_and_constraints_reach_the_weights_under_a_norm():
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


@kinds.options_of_gates
def test_without_norm_it_is_keras_gru(options, training):
    kinds.assert_equals_keras(GRU, options, training=training)


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
def test_with_reset_before_it_is_keras_gru(options, training):
    kinds.assert_equals_keras(GRU, {"reset_after": False, **options}, training=training)


@pytest.mark.parametrize("reset_after", [True, False])
@pytest.mark.parametrize("options", [{}, {"zero_output_for_mask": True}], ids=str)
def test_without_norm_it_is_keras_gru_under_a_mask(options, reset_after):
    kinds.assert_equals_keras(GRU, {"reset_after": reset_after, **options}, kinds.MASK)


def test_a_build_that_fails_leaves_the_cell_as_it_was():
    cell = NormGRUCell(3, norm=LayerNormalization())
    assert_refused(lambda: cell.build((None, None)), "None")
    assert cell.reset_after


@pytest.mark.parametrize("cls", [NormGRU, NormGRUCell])
def test_reset_before_a_norm_is_refused(cls):
    assert_refused(lambda: cls(3, norm=LayerNormalization(), reset_after=False), "reset_after")
    assert not cls(3, norm={"kernel_norm": None}, reset_after=False).reset_after
