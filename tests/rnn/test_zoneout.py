"""Zoneout: units of a state that keep the value of the previous timestep (Krueger et al. 2016)."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.rnn.core.zoneout import draw_changes
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, GRU, KINDS, LSTM, MASK, SIMPLE_RNN, TIME, UNITS

RATES = {LSTM: {"zoneout": 0.3, "cell_zoneout": 0.6}, GRU: {"zoneout": 0.3}}
RATES[SIMPLE_RNN] = RATES[GRU]
FORMS = [(LSTM, "separate"), (LSTM, "joint"), (GRU, "joint_all"), (SIMPLE_RNN, "separate")]
# The oracle counts timesteps from the first unmasked one, so no sequence is padded in front.
UNMASKED_FIRST = np.where(np.arange(TIME) == 0, MASK.any(axis=1, keepdims=True), MASK)
LAYER_NORM = keras_norm.LayerNormalization()


def build(kind, form="separate", **options):
    return kinds.build(kind, LAYER_NORM, norm_form=form, seed=3, **RATES[kind], **options)


def assert_follows_the_equation(layer, training, shares):
    """Compare outputs, states and gradients with the oracle, whose states change by `shares`."""
    options = {"changes": shares}
    for compiled in (True, False):
        layer.compiled = compiled
        expected = kinds.oracle_gradients(layer, UNMASKED_FIRST, **options)
        kinds.assert_gradients_equal(layer, expected, UNMASKED_FIRST, training)
    if not training:
        kinds.assert_follows_oracle(layer, UNMASKED_FIRST, **options)


@pytest.mark.parametrize(("kind", "form"), FORMS, ids=str)
def test_at_inference_a_state_moves_by_the_expected_share(kind, form):
    shares = [np.full(TIME, 1 - rate) for rate in RATES[kind].values()]
    assert_follows_the_equation(build(kind, form), training=False, shares=shares)


@pytest.mark.parametrize(("kind", "form"), FORMS, ids=str)
def test_in_training_each_unit_takes_its_new_value_or_keeps_the_old_one(kind, form):
    layer = build(kind, form)
    shares = [np.random.default_rng(k).random((TIME, BATCH, UNITS)) < 0.5 for k in range(2)]
    shares = shares[: kind.states]
    layer.cell.draw_changes = lambda *_: [keras.ops.convert_to_tensor(share) for share in shares]
    assert_follows_the_equation(layer, training=True, shares=shares)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("norm", [None, keras_norm.TimestepBatchNormalization(TIME)], ids=str)
def test_equal_seeds_give_equal_gradients_compiled_and_in_the_loop(kind, norm):
    def make(compiled):
        return kinds.build(kind, norm, seed=3, dropout=0.2, **RATES[kind], compiled=compiled)

    x, states = kinds.cast(kinds.inputs()), kinds.cast(kinds.initial_states(kind))
    kinds.assert_compiled_equals_loop(make, x, states, MASK)


def test_the_share_of_units_that_change_is_one_minus_the_rate():
    shapes = [(50, 20, 10)] * 3
    first, none, last = draw_changes((0.1, 0.0, 0.8), shapes, True, keras.random.SeedGenerator(1))
    assert none is None
    assert abs(np.mean(first) - 0.9) < 0.01
    assert abs(np.mean(last) - 0.2) < 0.01
    assert draw_changes((0.25,), shapes[:1], False, None) == [0.75]


def test_a_cell_in_keras_rnn_has_the_outputs_of_the_layer():
    layer = build(LSTM)
    rnn = keras.layers.RNN(layer.cell, return_sequences=True, return_state=True, dtype="float64")
    x = kinds.cast(kinds.inputs())
    kinds.assert_close(rnn(x), layer(x))
    h, _ = layer.cell(x[:, 0], kinds.cast(kinds.initial_states(LSTM)), training=True)
    kept = np.isclose(h, kinds.initial_states(LSTM)[0])
    assert 0 < kept.mean() < 1


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), "0.1", None])
def test_rates_outside_0_to_1_raise(rate):
    assert_refused(lambda: keras_norm.NormGRU(3, zoneout=rate), "zoneout", repr(rate))
    assert_refused(lambda: keras_norm.NormLSTM(3, cell_zoneout=rate), "cell_zoneout", repr(rate))
