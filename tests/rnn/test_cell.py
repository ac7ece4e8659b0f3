"""Cells called directly, in keras.layers.RNN and in keras.layers.StackedRNNCells."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization, TimestepBatchNormalization
from keras_norm.rnn.timestep_counter import COUNTER_DIGITS, advance_counter, read_counter
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
    layer.build((None, None, FEATURES))
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
@pytest.mark.parametrize("prefix", PRESETS)
def test_too_few_states_raise(kind, prefix):
    """A missing timestep counter is a missing state."""
    cell = kind.preset(prefix, "Cell")(UNITS, **PRESETS[prefix])
    states = cell.get_initial_state(BATCH)[:-1]
    assert_refused(
        lambda: cell(kinds.inputs()[:, 0], states),
        f"Received {len(states)} tensors",
        "counter",
        "get_initial_state",
    )


@pytest.mark.parametrize("kind", [k for k in KINDS if k.states == 1], ids=str)
def test_a_single_state_may_be_passed_without_a_list(kind):
    cell, x, (h,) = build(kind, None), kinds.inputs()[:, 0], kinds.initial_states(kind)
    output, state = cell(x, tf.constant(h))
    kinds.assert_close(state, output, 0)
    kinds.assert_close(cell(x, [tf.constant(h)])[1], [output], 0)


def test_one_step_under_xla_equals_eager():
    cell = build(kinds.LSTM, kinds.NORMS["timestep"])
    counter = cell.get_initial_state(BATCH)[2:]
    states = [*kinds.cast(kinds.initial_states(kinds.LSTM)), *counter]
    x = tf.constant(kinds.inputs()[:, 0])
    step = tf.function(lambda x, *s: cell(x, list(s)), jit_compile=True, autograph=False)
    kinds.assert_close(step(x, *states), cell(x, states))


# Timesteps --------------------------------------------------------------------------------------


def test_a_cell_with_timestep_statistics_counts_its_timesteps():
    cell, x = build(kinds.LSTM, TimestepBatchNormalization(3)), kinds.inputs()
    states = cell.get_initial_state(BATCH)
    for t in range(3):
        np.testing.assert_array_equal(read_counter(states[-1]), [t] * BATCH)
        _, states = cell(x[:, t], states)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_counter_is_exact_over_thousands_of_timesteps(dtype):
    @tf.function(autograph=False)
    def advance(counter, steps):
        def body(k, counter):
            return k + 1, advance_counter(counter)

        return tf.while_loop(lambda k, _: k < steps, body, (0, counter))[1]

    counter = tf.zeros((1, COUNTER_DIGITS), dtype)
    for t in range(0, 3000, 64):
        assert read_counter(counter) == t
        counter = advance(counter, 63)
        assert read_counter(counter) == t + 63
        counter = advance(counter, 1)


def test_every_sequence_has_its_own_counter():
    """keras.layers.RNN does not change the states of a masked sequence."""
    counter = tf.constant([[0.0, 3.0], [2.0, 1.0], [1.0, 127.0]])
    np.testing.assert_array_equal(read_counter(counter), [3, 257, 255])


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


@pytest.mark.parametrize(
    ("kind", "norm", "options", "dropout"),
    [
        (kinds.LSTM, kinds.NORMS["timestep"], {"unroll": True}, {}),
        (kinds.LSTM, kinds.NORMS["batch"], {}, {}),
        (kinds.LSTM, kinds.NORMS["layer"], {}, {"dropout": 0.4, "seed": 5}),
        (kinds.GRU, SOME_SLOTS, {}, {}),
        (kinds.GRU, kinds.NORMS["none"], {"go_backwards": True}, {}),
        (kinds.GRU, kinds.NORMS["layer"], {}, {"recurrent_dropout": 0.4, "seed": 5}),
        (kinds.SIMPLE_RNN, kinds.NORMS["timestep"], {"go_backwards": True}, {}),
        (kinds.SIMPLE_RNN, kinds.NORMS["mixed slots"], {}, {}),
    ],
    ids=str,
)
def test_keras_rnn_over_the_cell_equals_the_layer(kind, norm, options, dropout):
    """With dropout, both draw equal masks in training."""
    cell = build(kind, norm, **dropout)
    rnn = keras.layers.RNN(
        cell, return_sequences=True, return_state=True, dtype="float64", **options
    )
    # In keras.layers.RNN a cell counts unmasked timesteps only.
    mask = right_padded(MASK) if cell.slots.count_steps else MASK
    mask = mask[:, ::-1] if "go_backwards" in options else mask
    x, states = kinds.inputs(), kinds.cast(kinds.initial_states(kind))
    counter = cell.get_initial_state(BATCH)[kind.states :]
    layer = layer_of(kind, cell, **options)
    for _ in range(2):
        call = {"mask": tf.constant(mask.copy()), "training": bool(dropout)}
        actual = rnn(x, initial_state=[*states, *counter], **call)
        kinds.assert_close(actual[: 1 + kind.states], layer(x, initial_state=states, **call), 1e-12)


@pytest.mark.parametrize(
    ("kind", "norm", "graph"),
    [(kinds.GRU, "batch", False), (kinds.SIMPLE_RNN, "timestep", True)],
    ids=str,
)
def test_an_empty_batch_in_keras_rnn_updates_no_statistics(kind, norm, graph):
    cell = build(kind, kinds.BATCH_NORMS[norm])
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    before = kinds.statistics(rnn)

    def run(x):
        return rnn(x, training=True)

    if graph:
        sequences = tf.TensorSpec((None, TIME, FEATURES), "float64")
        run = tf.function(run, input_signature=[sequences], autograph=False)
    empty = tf.zeros((0, TIME, FEATURES), "float64")
    assert run(empty).shape == rnn(empty, training=False).shape == (0, TIME, UNITS)
    kinds.assert_close(kinds.statistics(rnn), before, 0)


@pytest.mark.parametrize(
    ("kind", "norm"),
    [(kinds.LSTM, "timestep"), (kinds.GRU, "none")],
    ids=str,
)
def test_stacked_cells_equal_stacked_layers(kind, norm):
    cells = [build(kind, kinds.NORMS[norm]) for _ in range(2)]
    cells[1] = kind.cell(UNITS, norm=kinds.NORMS[norm], dtype="float64")
    cells[1].build((None, UNITS))
    kinds.randomize(cells[1])
    stack = keras.layers.RNN(
        keras.layers.StackedRNNCells(cells, dtype="float64"), return_sequences=True, dtype="float64"
    )
    x, mask = kinds.inputs(), right_padded(MASK)
    actual = stack(x, mask=tf.constant(mask))
    first = layer_of(kind, cells[0])
    second = kind.layer.from_config({**cells[1].get_config(), "return_sequences": True})
    second.build((None, None, UNITS))
    second.set_weights(cells[1].get_weights())
    expected = second(first(x, mask=mask)[0], mask=mask)
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
