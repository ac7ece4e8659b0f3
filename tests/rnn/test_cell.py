"""Cells called directly, in keras.layers.RNN and in keras.layers.StackedRNNCells."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization, TimestepBatchNormalization
from keras_norm.rnn.timestep_counter import COUNTER_DIGITS, advance_counter, read_counter
from tests.check_layer import assert_refused
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, FEATURES, KINDS, MASK, TIME, UNITS

PRESETS = {"Norm": {}, "LayerNorm": {}, "BatchNorm": {"max_timesteps": 3}}
CELLS = [(kind.preset(prefix, "Cell"), PRESETS[prefix]) for kind in KINDS for prefix in PRESETS]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=str)
every_norm = pytest.mark.parametrize("norm", kinds.NORMS.values(), ids=kinds.NORMS)
every_cell = pytest.mark.parametrize(("cls", "kwargs"), CELLS, ids=[c.__name__ for c, _ in CELLS])


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
def test_one_step_matches_the_equations(kind, norm):
    cell, x, states = build(kind, norm), kinds.inputs(time=1), kinds.initial_states(kind)
    counter = cell.get_initial_state(BATCH)[kind.states :]
    output, new = cell(x[:, 0], [*kinds.cast(states), *counter])
    expected, *expected_states = kinds.reference(cell, kinds.values(cell), x, states)
    kinds.assert_close(output, expected[:, 0])
    kinds.assert_close(new[: kind.states], expected_states)
    assert len(new) == kind.states + len(counter)


@every_cell
def test_too_few_states_raise(cls, kwargs):
    cell, x = cls(UNITS, **kwargs), kinds.inputs(time=1)[:, 0]
    states = cell.get_initial_state(BATCH)[:-1]
    assert_refused(lambda: cell(x, states), f"Received {len(states)} tensors", "get_initial_state")


@pytest.mark.parametrize("kind", [k for k in KINDS if k.states == 1], ids=str)
def test_a_single_state_may_be_passed_without_a_list(kind):
    cell, x, (h,) = build(kind, None), kinds.inputs()[:, 0], kinds.initial_states(kind)
    output, state = cell(x, tf.constant(h))
    kinds.assert_close(state, output, 0)
    kinds.assert_close(cell(x, [tf.constant(h)])[1], [output], 0)


@every_kind
@every_norm
def test_initial_states_have_the_sizes_of_state_size(kind, norm):
    cell = kind.cell(UNITS, norm=norm, dtype="float64")
    sizes = cell.state_size if isinstance(cell.state_size, list) else [cell.state_size]
    assert [tuple(s.shape) for s in cell.get_initial_state(3)] == [(3, size) for size in sizes]
    assert all(s.dtype == "float64" for s in cell.get_initial_state(3))


@every_kind
def test_state_and_output_sizes_equal_those_of_keras(kind):
    theirs = getattr(keras.layers, f"{kind.name}Cell")(UNITS)
    ours = kind.cell(UNITS, norm=kinds.PER_SAMPLE_NORMS["layer"])
    assert ours.state_size == theirs.state_size
    assert ours.output_size == theirs.output_size == UNITS


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


@every_kind
def test_a_missing_counter_raises(kind):
    cell = build(kind, TimestepBatchNormalization(3))
    states = kinds.cast(kinds.initial_states(kind))
    assert_refused(
        lambda: cell(kinds.inputs()[:, 0], states),
        f"Received {kind.states} tensors",
        "counter",
        "get_initial_state",
    )


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


@every_kind
def test_timestep_statistics_in_some_slots_equal_the_layer(kind):
    rest, *slots = kind.slots
    norm = {slot: TimestepBatchNormalization(3) for slot in slots}
    norm[rest] = LayerNormalization()
    cell = build(kind, norm)
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    kinds.assert_close(rnn(kinds.inputs()), layer_of(kind, cell)(kinds.inputs())[0], 1e-12)


@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        *((kind, "timestep") for kind in KINDS),
        (kinds.LSTM, "batch"),
        (kinds.LSTM, "layer"),
        (kinds.GRU, "none"),
        (kinds.SIMPLE_RNN, "mixed slots"),
    ],
    ids=str,
)
def test_keras_rnn_over_the_cell_equals_the_layer(kind, norm):
    norm = kinds.NORMS[norm]
    cell = build(kind, norm)
    rnn = keras.layers.RNN(cell, return_sequences=True, return_state=True, dtype="float64")
    # In keras.layers.RNN a cell counts unmasked timesteps only.
    mask = right_padded(MASK) if cell.slots.count_steps else MASK
    x, states = kinds.inputs(), kinds.cast(kinds.initial_states(kind))
    counter = cell.get_initial_state(BATCH)[kind.states :]
    actual = rnn(x, initial_state=[*states, *counter], mask=tf.constant(mask))
    expected = layer_of(kind, cell)(x, initial_state=states, mask=mask)
    kinds.assert_close(actual[: 1 + kind.states], expected, 1e-12)


@pytest.mark.parametrize(
    ("kind", "norm", "graph"),
    [
        (kinds.LSTM, "timestep", "eager"),
        (kinds.GRU, "batch", "eager"),
        (kinds.SIMPLE_RNN, "timestep", "graph"),
        (kinds.SIMPLE_RNN, "batch", "graph"),
    ],
    ids=str,
)
def test_an_empty_batch_in_keras_rnn_updates_no_statistics(kind, norm, graph):
    cell = build(kind, kinds.BATCH_NORMS[norm])
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    before = kinds.statistics(rnn)

    def run(x):
        return rnn(x, training=True)

    if graph == "graph":
        sequences = tf.TensorSpec((None, TIME, FEATURES), "float64")
        run = tf.function(run, input_signature=[sequences], autograph=False)
    empty = tf.zeros((0, TIME, FEATURES), "float64")
    assert run(empty).shape == rnn(empty, training=False).shape == (0, TIME, UNITS)
    kinds.assert_close(kinds.statistics(rnn), before, 0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kinds.LSTM, {"unroll": True}), (kinds.GRU, {"go_backwards": True})],
    ids=str,
)
def test_unrolled_and_reversed_keras_rnn_equal_the_layer(kind, options):
    cell = build(kind, TimestepBatchNormalization(3))
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64", **options)
    expected = layer_of(kind, cell, **options)(kinds.inputs())
    kinds.assert_close(rnn(kinds.inputs()), expected[0], 1e-12)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (kinds.LSTM, {"dropout": 0.4}),
        (kinds.GRU, {"recurrent_dropout": 0.4}),
        (kinds.SIMPLE_RNN, {"dropout": 0.4, "recurrent_dropout": 0.4}),
    ],
    ids=str,
)
def test_keras_rnn_and_the_layer_draw_equal_dropout_masks(kind, options):
    cell = build(kind, kinds.PER_SAMPLE_NORMS["layer"], seed=5, **options)
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    layer = layer_of(kind, cell)
    for _ in range(2):
        expected = layer(kinds.inputs(), training=True)[0]
        kinds.assert_close(rnn(kinds.inputs(), training=True), expected, 1e-12)


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


def test_bidirectional_runs_over_keras_rnn():
    cell = build(kinds.SIMPLE_RNN, kinds.NORMS["timestep"])
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    both = keras.layers.Bidirectional(rnn, dtype="float64")
    assert both(kinds.inputs()).shape == (BATCH, TIME, 2 * UNITS)


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


# Configuration and weights ----------------------------------------------------------------------


@every_cell
def test_cells_are_registered_under_the_package(cls, kwargs):
    assert keras.saving.get_registered_name(cls) == f"keras_norm>{cls.__name__}"
    assert getattr(keras_norm, cls.__name__) is cls


@every_cell
def test_the_configuration_of_a_cell_survives_json(cls, kwargs):
    config = cls(UNITS, dropout=0.1, activation="relu", **kwargs).get_config()
    assert cls.from_config(json.loads(json.dumps(config))).get_config() == config


@every_kind
@every_norm
def test_the_norm_of_a_cell_survives_json(kind, norm):
    config = kind.cell(UNITS, norm=norm).get_config()
    cell = kind.cell.from_config(json.loads(json.dumps(config)))
    assert cell.get_config() == config
    assert list(cell.slots.templates) == list(kind.cell(UNITS, norm=norm).slots.templates)


@every_cell
def test_an_unknown_argument_raises_with_its_name(cls, kwargs):
    assert_refused(lambda: cls(UNITS, no_such_argument=1, **kwargs), "no_such_argument")


@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        (kinds.LSTM, "layer"),
        (kinds.GRU, "timestep"),
        *((kinds.SIMPLE_RNN, norm) for norm in kinds.NORMS),
    ],
    ids=str,
)
def test_calls_do_not_change_the_configuration(kind, norm):
    norm = kinds.NORMS[norm]
    cell = kind.cell(UNITS, norm=norm)
    config = cell.get_config()
    cell(kinds.inputs()[:, 0], cell.get_initial_state(BATCH), training=True)
    assert cell.get_config() == config
    assert cell.norm == norm


@every_kind
def test_trainable_weights_are_ordered_cell_first_then_norms(kind):
    cell = build(kind, kinds.PER_SAMPLE_NORMS["layer"])
    expected = ["kernel", "recurrent_kernel", "bias"]
    for slot in kind.slots:
        expected += [f"{slot}/gamma", f"{slot}/beta"]
    named = {id(v): name for name, v in kinds.variables(cell).items()}
    assert [named[id(weight)] for weight in cell.trainable_weights] == expected


@pytest.mark.parametrize(
    ("kind", "norm"),
    [(kinds.LSTM, "timestep"), (kinds.GRU, "layer")],
    ids=str,
)
def test_one_step_under_xla_equals_eager(kind, norm):
    cell = build(kind, kinds.NORMS[norm])
    states = [
        *kinds.cast(kinds.initial_states(kind)),
        *cell.get_initial_state(BATCH)[kind.states :],
    ]
    x = tf.constant(kinds.inputs()[:, 0])
    expected = cell(x, states)
    step = tf.function(lambda x, *s: cell(x, list(s)), jit_compile=True, autograph=False)
    kinds.assert_close(step(x, *states), expected)
