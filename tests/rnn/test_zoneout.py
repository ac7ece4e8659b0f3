"""Zoneout: units of a state that keep the value of the previous timestep (Krueger et al. 2016).

`test_options.py` compares it with its equation.
"""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.rnn.core.zoneout import draw_changes
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import GRU, KINDS, LSTM, MASK, SIMPLE_RNN, TIME

RATES = {LSTM: {"zoneout": 0.3, "cell_zoneout": 0.6}, GRU: {"zoneout": 0.3}}
RATES[SIMPLE_RNN] = RATES[GRU]
LAYER_NORM = keras_norm.LayerNormalization()


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
    layer = kinds.build(LSTM, LAYER_NORM, seed=3, **RATES[LSTM])
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
