"""Initial states that are weights: values, gradients, resets, stored states, files."""

import keras
import numpy as np
import pytest

import keras_norm
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, FEATURES, GRU, KINDS, LSTM, TIME, UNITS

NORM = kinds.NORMS["layer"]
RESETS = np.arange(BATCH * TIME).reshape(BATCH, TIME) % 3 == 1


def build(kind, norm=NORM, **options):
    """Build a layer with random weights, also of the initial states."""
    return kinds.build(kind, norm, learn_initial_state=True, **options)


def rows_of(layer, batch=BATCH):
    """Return the learned initial states as one row for each sequence."""
    return [np.repeat(state[None], batch, axis=0) for state in layer.cell.initial_states]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("resets", [None, RESETS], ids=["one sequence", "resets"])
def test_the_weights_are_the_initial_states_and_have_the_sum_of_their_gradients(kind, resets):
    layer, x = build(kind), kinds.cast(kinds.inputs())
    results, (dx, *found) = kinds.train(layer, x, resets=resets)
    given = kinds.cast(rows_of(layer))
    expected, (dx_given, *others) = kinds.train(layer, x, given, resets=resets)
    sums = [keras.ops.sum(d, axis=0) for d in others[: kind.states]]
    names = [weight.name for weight in layer.trainable_weights]
    first = names.index("initial_state_0")
    kinds.assert_close([results, dx], [expected, dx_given], 1e-12)
    kinds.assert_close(found[first : first + kind.states], sums)
    assert np.abs(sums).min() > 0


def test_new_weights_are_zeros_behind_the_bias_and_states_have_the_dtype_of_the_cell():
    layer = LSTM.layer(UNITS, norm=NORM, learn_initial_state=True, dtype="mixed_bfloat16")
    layer.build((None, None, FEATURES))
    names = [weight.name for weight in layer.weights[:5]]
    assert names == ["kernel", "recurrent_kernel", "bias", "initial_state_0", "initial_state_1"]
    assert not np.any(layer.get_weights()[3:5])
    assert {state.dtype.name for state in layer.cell.get_initial_state(2)} == {"bfloat16"}
    assert layer.learn_initial_state
    assert not LSTM.layer(UNITS).learn_initial_state


def test_stateful_layers_start_from_the_weights_when_reset():
    layer = LSTM.layer(UNITS, stateful=True, learn_initial_state=True, dtype="float64")
    layer.build((BATCH, TIME, FEATURES))
    kinds.randomize(layer)
    layer.reset_state()
    kinds.assert_close(layer.states, rows_of(layer), 0)


def test_a_cell_with_timestep_statistics_counts_from_zero_in_keras_rnn():
    layer = build(GRU, kinds.NORMS["timestep"], return_state=False)
    kinds.randomize_statistics(layer)
    rnn = keras.layers.RNN(layer.cell, return_sequences=True, dtype="float64")
    kinds.assert_close(rnn(kinds.inputs()), layer(kinds.inputs()), 1e-12)


def test_models_are_saved_and_are_not_converted_to_layers_that_lack_the_weights(tmp_path):
    x = keras.Input((None, FEATURES))
    layer = keras_norm.NormGRU(UNITS, learn_initial_state=True, name="mine")
    model = keras.Model(x, layer(x))
    kinds.randomize(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    kinds.assert_close(loaded(kinds.inputs()), model(kinds.inputs()), 0)
    with pytest.raises(ValueError, match="has no layer to convert"):
        keras_norm.to_keras(model)
