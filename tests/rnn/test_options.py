"""Options of the cells: zoneout, candidate dropout, peepholes, a clipped c and a projection."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.rnn.random_masks import NO_MASKS
from tests.check_layer import assert_refused
from tests.pairwise import pairwise
from tests.rnn import kinds
from tests.rnn.core.extensions import PlainLSTM
from tests.rnn.kinds import BATCH, GRU, LSTM, SIMPLE_RNN, TIME, UNITS

# The oracle counts timesteps from the first unmasked one, so no sequence is padded in front.
UNMASKED_FIRST = np.where(np.arange(TIME) == 0, kinds.MASK.any(1, keepdims=True), kinds.MASK)
MASKS = {"unmasked": None, "masked": UNMASKED_FIRST}
LAYER_NORM = keras_norm.LayerNormalization()
NORMS = {"none": None, "layer": LAYER_NORM, "rms": keras_norm.RMSNormalization()}
RATES = ("zoneout", "cell_zoneout", "candidate_dropout")
RATE = 0.4
KEPT = np.random.default_rng(3).random((TIME, BATCH, UNITS)) >= RATE

ALONE = {
    "peepholes": (LSTM, {"peepholes": True}),
    "clip": (LSTM, {"cell_clip": 0.4}),
    "projection": (LSTM, {"projection_units": 3}),
    "candidate dropout": (LSTM, {"candidate_dropout": RATE}),
    "candidate dropout of a GRU": (GRU, {"candidate_dropout": RATE}),
    "candidate dropout of a joint GRU": (
        GRU,
        {"candidate_dropout": RATE, "norm_form": "joint_all"},
    ),
}


def fix_random_masks(layer, training):
    """Give a layer fixed random masks in training, and return the options of the oracle."""
    cell, options, fixed, to_tensor = layer.cell, {}, {}, keras.ops.convert_to_tensor
    if training and cell.candidate_dropout:
        options["candidate"] = KEPT / (1.0 - RATE)
        fixed["step"] = {"candidate_mask": to_tensor(options["candidate"])}
    if any(cell.zoneout_rates()):
        options["changes"], fixed["changes"] = [], []
        for rate, size in zip(cell.zoneout_rates(), cell.recurrent_state_sizes, strict=True):
            change = np.random.default_rng(size).random((TIME, BATCH, size)) < 0.5
            options["changes"].append(change if rate and training else np.full(TIME, 1.0 - rate))
            fixed["changes"] += [to_tensor(change)] if rate else []
    if training:
        cell.draw_masks = lambda *_: NO_MASKS._replace(**fixed)
    return options


def assert_follows_the_equations(layer, mask, training):
    """Compare outputs, states and gradients of the custom gradient and of the loop."""
    options = fix_random_masks(layer, training)
    expected = kinds.oracle_gradients(layer, mask, **options)
    for compiled in (True, False):
        layer.compiled = compiled
        if not training:
            kinds.assert_follows_oracle(layer, mask, **options)
        kinds.assert_gradients_equal(layer, expected, mask, training)


@pytest.mark.parametrize(("kind", "options"), ALONE.values(), ids=ALONE)
def test_an_option_alone_follows_its_equation(kind, options):
    layer = kinds.build(kind, LAYER_NORM, seed=3, **options)
    assert_follows_the_equations(layer, UNMASKED_FIRST, training=True)


OF_EVERY_CELL = {
    "norm": list(NORMS),
    "norm_form": ["separate", "joint", "joint_all"],
    "mask": list(MASKS),
    "training": [True, False],
    "zoneout": [0.2, 0.0],
    "use_bias": [True, False],
}
OF_THE_GRU = {**OF_EVERY_CELL, "candidate_dropout": [RATE, 0.0]}
OF_THE_LSTM = {
    **OF_THE_GRU,
    "peepholes": [True, False],
    "cell_clip": [0.4, None],
    "projection_units": [3, 5, None],
    "cell_zoneout": [0.3, 0.0],
}
OPTIONS = {LSTM: OF_THE_LSTM, GRU: OF_THE_GRU, SIMPLE_RNN: OF_EVERY_CELL}
PAIRS = [(kind, options) for kind in OPTIONS for options in pairwise(**OPTIONS[kind])]


@pytest.mark.parametrize(("kind", "options"), PAIRS, ids=str)
def test_every_pair_of_options_follows_the_equations(kind, options):
    named = dict(options)
    norm, mask, training = (named.pop(name) for name in ("norm", "mask", "training"))
    layer = kinds.build(kind, NORMS[norm], seed=3, **named)
    assert_follows_the_equations(layer, MASKS[mask], training)


def block_lstm(x, states, weights, cell_clip):
    """Run TensorFlow's LSTM with peepholes, whose gates are in the order i, g, f, o."""
    kernel, recurrent_kernel, bias, *peepholes = weights
    i, f, g, o = tf.split(tf.concat([kernel, recurrent_kernel, bias[None]], 0), 4, axis=1)
    *matrix, bias = tf.unstack(tf.concat([i, g, f, o], axis=1))
    sizes = {"seq_len_max": TIME, "x": tf.transpose(x, [1, 0, 2])}
    options = {"forget_bias": 0.0, "cell_clip": cell_clip or -1.0, "use_peephole": True}
    named = dict(zip(("wci", "wcf", "wco"), peepholes, strict=True))
    named |= {"h_prev": states[0], "cs_prev": states[1], "w": tf.stack(matrix), "b": bias}
    return tf.transpose(tf.raw_ops.BlockLSTM(**sizes, **options, **named).h, [1, 0, 2])


@pytest.mark.parametrize("cell_clip", [None, 0.4])
def test_peepholes_and_the_clip_are_those_of_tensorflow(cell_clip):
    """TensorFlow's kernel has no gradient of the clip, so gradients are compared without it."""
    layer = kinds.build(LSTM, dtype="float32", peepholes=True, cell_clip=cell_clip)
    x, states = (kinds.cast(a, "float32") for a in (kinds.inputs(), kinds.initial_states(LSTM)))
    weights, found = [w.value for w in layer.trainable_variables], []
    for run in (
        lambda: layer(x, initial_state=states, training=True)[0],
        lambda: block_lstm(x, states, weights, cell_clip),
    ):
        with tf.GradientTape() as tape:
            y = run()
            loss = tf.reduce_sum(tf.sin(3.0 * y))
        found.append([y, [] if cell_clip else tape.gradient(loss, weights)])
    kinds.assert_close(*found, 1e-6)


@pytest.mark.parametrize(
    "masks", [{"candidate_dropout": 0.9}, {"zoneout": 0.3, "cell_zoneout": 0.6}], ids=str
)
def test_a_cell_in_keras_rnn_has_the_outputs_of_the_layer(masks):
    options = {"peepholes": True, "projection_units": 3, "seed": 3, **masks}
    layer = kinds.build(LSTM, LAYER_NORM, **options)
    rnn = keras.layers.RNN(layer.cell, return_sequences=True, return_state=True, dtype="float64")
    x, states = kinds.cast(kinds.inputs()), kinds.cast(kinds.states_of(layer))
    kinds.assert_close(rnn(x, initial_state=states), layer(x, initial_state=states))
    _, (_, c) = layer.cell(x[:, 0], states, training=True)
    _, (_, without) = layer.cell(x[:, 0], states)
    assert not np.allclose(c, without)
    kept = np.isclose(c, states[1]).mean()
    assert (0 < kept < 1) == ("zoneout" in masks)


def test_a_cell_draws_masks_in_its_compute_dtype():
    cell = keras_norm.NormGRUCell(UNITS, candidate_dropout=0.3, zoneout=0.2, dtype="mixed_float16")
    h = tf.zeros((BATCH, UNITS), "float16")
    assert cell(kinds.cast(kinds.inputs()[:, 0], "float16"), [h], training=True)[0].dtype == h.dtype


OF_THE_CELLS = {SIMPLE_RNN: {"zoneout": 0.2}, GRU: {"zoneout": 0.2, "candidate_dropout": 0.3}}
OF_THE_CELLS[LSTM] = {**OF_THE_CELLS[GRU], "cell_zoneout": 0.6, "peepholes": True}
OF_THE_CELLS[LSTM] |= {"cell_clip": 0.6, "projection_units": 3}


@pytest.mark.parametrize("kind", OF_THE_CELLS, ids=str)
@pytest.mark.parametrize("norm", [LAYER_NORM, keras_norm.TimestepBatchNormalization(TIME)])
def test_options_with_every_way_of_running_are_equal_compiled_and_in_the_loop(kind, norm):
    """Random masks of equal seeds, learned initial states and statistics per timestep."""

    def make(compiled):
        options = {"dropout": 0.2, "recurrent_dropout": 0.2, "learn_initial_state": True}
        options |= {"go_backwards": True, "seed": 3, **OF_THE_CELLS[kind]}
        return kinds.build(kind, norm, **options, compiled=compiled)

    kinds.assert_compiled_equals_loop(make, kinds.cast(kinds.inputs()), (), kinds.MASK)


def test_the_share_of_units_that_change_is_one_minus_the_rate():
    cell = kinds.build(LSTM, zoneout=0.1, cell_zoneout=0.8, seed=1).cell
    x, states = np.zeros((50, 100, kinds.FEATURES)), [np.zeros((50, UNITS))] * 2
    of_h, of_c = cell.draw_masks(x, states, training=True).changes
    assert of_h.shape == of_c.shape == (100, 50, UNITS)
    assert abs(np.mean(of_h) - 0.9) < 0.01
    assert abs(np.mean(of_c) - 0.2) < 0.01


def test_the_share_of_candidates_that_a_timestep_keeps_is_one_minus_the_rate():
    cell = kinds.build(GRU, candidate_dropout=0.3, seed=3).cell
    x, states = np.zeros((50, 100, kinds.FEATURES)), [np.zeros((50, UNITS))]
    (mask,) = cell.draw_masks(x, states, training=True).step.values()
    kept = np.isclose(mask, 1 / 0.7, rtol=1e-6)
    assert mask.shape == (100, 50, UNITS)
    assert (kept | (mask.numpy() == 0.0)).all()
    assert abs(kept.mean() - 0.7) < 0.01
    assert not np.array_equal(kept[0], kept[1])


def test_the_regularizer_and_the_constraint_of_the_kernel_are_of_the_projection_too():
    options = {"kernel_regularizer": "l2", "kernel_constraint": "non_neg"}
    layer = kinds.build(LSTM, projection_units=3, **options)
    assert len(layer.losses) == 2
    assert layer.cell.projection_kernel.constraint is not None


def test_all_rates_train_with_one_program():
    of_rates = {
        kinds.recurrence(kinds.build(LSTM, **dict.fromkeys(RATES, rate))) for rate in (0.1, 0.3)
    }
    assert len(of_rates) == 1


def test_options_that_are_off_add_no_operation():
    """Neither to a training step nor to inference."""

    def operations(cls):
        layer = kinds.built(cls(UNITS, LAYER_NORM, return_sequences=True, dtype="float64"))
        x = kinds.cast(kinds.inputs())
        for run in (lambda: kinds.train(layer, x), lambda: layer(x)):
            graph = tf.function(run, autograph=False).get_concrete_function().graph.as_graph_def()
            bodies = [graph.node, *(function.node_def for function in graph.library.function)]
            yield collections.Counter(node.op for body in bodies for node in body)

    assert list(operations(keras_norm.NormLSTM)) == list(operations(PlainLSTM))


def test_rows_with_resets_equal_their_pieces():
    layer = kinds.build(LSTM, LAYER_NORM, projection_units=3, peepholes=True, cell_clip=0.6)
    x = kinds.cast(kinds.inputs())
    whole, *states = layer(x, resets=np.arange(TIME)[None] == 2)
    for piece in (slice(0, 2), slice(2, TIME)):
        outputs, *last = layer(x[:, piece])
        kinds.assert_close(whole[:, piece], outputs)
    kinds.assert_close(states, last)


def test_a_saved_layer_keeps_its_options(tmp_path):
    options = {"projection_units": 3, "peepholes": True, "cell_clip": 0.6}
    options |= {"candidate_dropout": 0.3, "learn_initial_state": True}
    layer = keras_norm.Bidirectional(keras_norm.LayerNormLSTM(UNITS, **options))
    model = keras.Sequential([keras.Input((None, kinds.FEATURES)), layer])
    kinds.randomize(layer)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    x = kinds.inputs().astype("float32")
    np.testing.assert_array_equal(loaded(x), model(x))
    config = loaded.layers[0].forward_layer.get_config()
    assert {name: config[name] for name in options} == options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("projection_units", value) for value in (0, -1, 2.5, True, "3")),
        *(("cell_clip", value) for value in (0.0, -1, True, float("nan"), float("inf"), "1")),
        *((rate, value) for rate in RATES for value in (-0.1, 1.0, float("nan"), "0.1", None)),
        *((name, "no") for name in ("peepholes", "normalize_carry", "learn_initial_state")),
    ],
)
def test_an_option_out_of_its_range_raises(name, value):
    assert_refused(lambda: keras_norm.NormLSTM(3, **{name: value}), f"{name}={value!r}")


def test_a_norm_of_the_projection_in_a_joint_form_raises():
    norm = {"projection_norm": LAYER_NORM}
    assert_refused(
        lambda: keras_norm.NormLSTM(3, norm, projection_units=2, norm_form="joint"),
        "projection_norm",
        "input_norm",
    )
