"""Cells called directly, in keras.layers.RNN and in keras.layers.StackedRNNCells."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, TimestepBatchNormalization
from keras_norm.rnn.norm_rnn import NormRNN
from keras_norm.rnn.timestep_counter import (
    COUNTER_BASE,
    COUNTER_DIGITS,
    advance_counter,
    read_counter,
)
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, FEATURES, KINDS, MASK, TIME, UNITS

PRESETS = {"Norm": {}, "LayerNorm": {}, "BatchNorm": {"max_timesteps": 3}}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_norm = pytest.mark.parametrize("norm", kinds.NORMS.values(), ids=kinds.NORMS)


def build(kind, norm, **kwargs):
    cell = kind.cell(UNITS, norm=norm, dtype="float64", **kwargs)
    cell.build((None, FEATURES))
    kinds.randomize(cell)
    kinds.randomize_statistics(cell)
    return cell


def layer_of(kind, cell, **kwargs):
    """Build the layer with the cell's configuration and weights."""
    layer = kind.layer.from_config(
        {**cell.get_config(), "return_sequences": True, "return_state": True, **kwargs}
    )
    layer.build((None, None, cell.kernel.shape[0]))
    layer.set_weights(cell.get_weights())
    return layer


# One step ---------------------------------------------------------------------------------------


@every_kind
@every_norm
def test_one_step_matches_the_equations_and_changes_no_configuration(kind, norm):
    cell, x, states = build(kind, norm), kinds.inputs(time=1), kinds.initial_states(kind)
    config = cell.get_config()
    initial = cell.get_initial_state(BATCH)
    sizes = keras.tree.flatten(cell.state_size)
    assert [tuple(state.shape) for state in initial] == [(BATCH, size) for size in sizes]
    assert {state.dtype for state in initial} == {tf.float64}
    output, new = cell(x[:, 0], [*kinds.cast(states), *initial[kind.states :]])
    expected, *expected_states = kinds.reference(cell, kinds.values(cell), x, states)
    kinds.assert_close(output, expected[:, 0])
    kinds.assert_close(new[: kind.states], expected_states)
    assert len(new) == len(initial)
    cell(x[:, 0], initial, training=True)
    assert cell.get_config() == config
    assert cell.norm == norm
    again = kind.cell.from_config(json.loads(json.dumps(config)))
    assert again.get_config() == config
    assert list(again.slots.templates) == list(cell.slots.templates)


@every_kind
@pytest.mark.parametrize("norm", ["layer", "timestep"])
def test_too_few_states_raise(kind, norm):
    """A missing timestep counter is a missing state."""
    cell = build(kind, kinds.NORMS[norm])
    states = cell.get_initial_state(BATCH)[:-1]
    fragments = f"Received {len(states)} tensors", "counter", "get_initial_state"
    assert_refused(lambda: cell(kinds.inputs()[:, 0], states), *fragments)


@pytest.mark.parametrize("kind", [kinds.GRU, kinds.SIMPLE_RNN], ids=str)
def test_a_single_state_is_taken_and_returned_without_a_list(kind):
    cell, x, (h,) = build(kind, None), kinds.inputs()[:, 0], kinds.initial_states(kind)
    output, state = cell(x, tf.constant(h))
    kinds.assert_close(state, output, 0)
    kinds.assert_close(cell(x, [tf.constant(h)])[1], [output], 0)


# Timesteps --------------------------------------------------------------------------------------


def test_a_cell_with_timestep_statistics_counts_its_timesteps_also_under_xla():
    cell, x = build(kinds.LSTM, TimestepBatchNormalization(3)), kinds.inputs()
    step = tf.function(lambda x, *s: cell(x, list(s)), jit_compile=True, autograph=False)
    states = cell.get_initial_state(BATCH)
    for t in range(3):
        np.testing.assert_array_equal(read_counter(states[-1]), [t] * BATCH)
        compiled = step(tf.constant(x[:, t]), *states)
        output, states = cell(x[:, t], states)
        kinds.assert_close(compiled, (output, states))


def test_the_counter_is_exact_over_thousands_of_timesteps():
    @tf.function(autograph=False)
    def advance(counter, steps):
        def body(k, counter):
            return k + 1, advance_counter(counter)

        return tf.while_loop(lambda k, _: k < steps, body, (0, counter))[1]

    counter = tf.zeros((1, COUNTER_DIGITS), "bfloat16")
    for t in range(0, 3000, 64):
        assert read_counter(counter) == t
        counter = advance(counter, 63)
        assert read_counter(counter) == t + 63
        counter = advance(counter, 1)
        assert tf.reduce_max(counter) < COUNTER_BASE  # a digit fits in 8 bits


@keras.saving.register_keras_serializable("tests.rnn.test_cell")
class Doubled(LayerNormalization):
    """A subclass that overrides `call`."""

    def call(self, inputs):
        return 2.0 * super().call(inputs)


# keras.layers.RNN -------------------------------------------------------------------------------


def right_padded(mask):
    """Move all masked timesteps to the end of each sequence."""
    return np.sort(mask, axis=1)[:, ::-1]


def test_in_keras_rnn_a_sequence_does_not_depend_on_the_other_sequences():
    cell = build(kinds.SIMPLE_RNN, TimestepBatchNormalization(3))
    rnn = keras.layers.RNN(cell, dtype="float64")
    x = kinds.inputs()[:2]
    mask = np.array([[False, True, True, True], [True, True, True, True]])
    kinds.assert_close(rnn(x, mask=mask)[:1], rnn(x[:1], mask=mask[:1]), 1e-12)


SOME_SLOTS = {
    "kernel_norm": LayerNormalization(),
    "kernel_candidate_norm": TimestepBatchNormalization(3),
    "recurrent_norm": TimestepBatchNormalization(3),
}
OUTSIDE = LayerNormalization(ddof=1, epsilon_placement="outside")
STATISTICS = TimestepBatchNormalization(2, center=False, scale=False)
# The norm, the options of the layer, and the options of the cell.
LAYERS = {
    "LSTM, timestep, unrolled": (kinds.LSTM, kinds.NORMS["timestep"], {"unroll": True}, {}),
    "LSTM, batch": (kinds.LSTM, kinds.NORMS["batch"], {}, {}),
    "LSTM, dropout": (kinds.LSTM, kinds.NORMS["layer"], {}, {"dropout": 0.4, "seed": 5}),
    "LSTM, other deviation": (kinds.LSTM, OUTSIDE, {}, {}),
    "GRU, some slots": (kinds.GRU, SOME_SLOTS, {}, {}),
    "GRU, backwards": (kinds.GRU, None, {"go_backwards": True}, {}),
    "GRU, dropout of h": (kinds.GRU, OUTSIDE, {}, {"recurrent_dropout": 0.4, "seed": 5}),
    "GRU, no bias": (kinds.GRU, LayerNormalization(), {}, {"use_bias": False}),
    "GRU, no gamma": (kinds.GRU, LayerNormalization(scale=False), {}, {}),
    "GRU, subclass": (kinds.GRU, Doubled(), {}, {}),
    "GRU, statistics alone": (kinds.GRU, STATISTICS, {}, {"use_bias": False}),
    "RNN, backwards": (kinds.SIMPLE_RNN, kinds.NORMS["timestep"], {"go_backwards": True}, {}),
    "RNN, mixed slots": (kinds.SIMPLE_RNN, kinds.NORMS["mixed slots"], {}, {}),
    "RNN, no beta": (kinds.SIMPLE_RNN, LayerNormalization(center=False), {}, {}),
}


@pytest.mark.parametrize(("kind", "norm", "options", "of_cell"), LAYERS.values(), ids=LAYERS)
def test_keras_rnn_over_the_cell_equals_the_loop_of_the_layer(kind, norm, options, of_cell):
    """With dropout, both draw equal masks in training."""
    cell = build(kind, norm, **of_cell)
    rnn = keras.layers.RNN(
        cell, return_sequences=True, return_state=True, dtype="float64", **options
    )
    # In keras.layers.RNN a cell counts unmasked timesteps only.
    mask = right_padded(MASK) if cell.slots.count_steps else MASK
    mask = mask[:, ::-1] if "go_backwards" in options else mask
    x, states = kinds.inputs(), kinds.cast(kinds.initial_states(kind))
    counter = cell.get_initial_state(BATCH)[kind.states :]
    layer = layer_of(kind, cell, **options)
    for _ in range(2 if "seed" in of_cell else 1):
        call = {"mask": tf.constant(mask.copy()), "training": "seed" in of_cell}
        actual = rnn(x, initial_state=[*states, *counter], **call)
        kinds.assert_close(actual[: 1 + kind.states], layer(x, initial_state=states, **call), 1e-12)


class NormalizedOutput(kinds.LSTM.cell):
    """An LSTM that applies the norm of c to h too."""

    def step(self, weights, x, states, dropout, norm):
        h, c = super().step(weights, x, states, dropout, norm)
        return [norm("state_norm", h), c]


def test_a_step_may_apply_a_norm_to_two_tensors():
    cell = NormalizedOutput(UNITS, {"state_norm": LayerNormalization()}, dtype="float64")
    x = kinds.inputs()
    expected = keras.layers.RNN(cell, dtype="float64")(x)
    kinds.assert_close(NormRNN(cell, dtype="float64")(x), expected)


@pytest.mark.parametrize(("norm", "graph"), [("batch", False), ("timestep", True)], ids=str)
def test_an_empty_batch_in_keras_rnn_updates_no_statistics(norm, graph):
    cell = build(kinds.SIMPLE_RNN, kinds.BATCH_NORMS[norm])
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    before = kinds.statistics(rnn)

    def run(x):
        return rnn(x, training=True)

    sequences = tf.TensorSpec((None, TIME, FEATURES), "float64")
    run = tf.function(run, [sequences], autograph=False) if graph else run
    empty = tf.zeros((0, TIME, FEATURES), "float64")
    assert run(empty).shape == rnn(empty, training=False).shape == (0, TIME, UNITS)
    kinds.assert_close(kinds.statistics(rnn), before, 0)


def test_stacked_cells_equal_stacked_layers():
    kind, norm, options = kinds.LSTM, kinds.NORMS["timestep"], {"dtype": "float64"}
    cells = [build(kind, norm), kind.cell(UNITS, norm=norm, **options)]
    kinds.built(cells[1], UNITS)
    stack = keras.layers.StackedRNNCells(cells, **options)
    rnn = keras.layers.RNN(stack, return_sequences=True, **options)
    x, mask = kinds.inputs(), right_padded(MASK)
    actual = rnn(x, mask=tf.constant(mask))
    first, second = (layer_of(kind, cell) for cell in cells)
    expected = second(first(x, mask=mask)[0], mask=mask)[0]
    unmasked = mask[..., None]
    kinds.assert_close(np.where(unmasked, actual, 0), np.where(unmasked, expected, 0), 1e-12)


def test_a_model_of_stacked_cells_survives_saving(tmp_path):
    """The stack has a cell without norms, with layer normalization and with batch statistics."""
    cells = [kinds.SIMPLE_RNN.preset(p, "Cell")(UNITS, **PRESETS[p]) for p in PRESETS]
    inputs = keras.Input((None, FEATURES))
    model = keras.Model(inputs, keras.layers.RNN(keras.layers.StackedRNNCells(cells))(inputs))
    for k, weight in enumerate(model.weights):
        if "float" in weight.dtype:
            weight.assign(1.0 + 0.3 * kinds.draw(*weight.shape, seed=k) ** 2)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = kinds.inputs().astype("float32")
    kinds.assert_close(loaded(x), model(x), 0)
