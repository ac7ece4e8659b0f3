"""Batch normalization inside recurrences: Cooijmans et al., and which rows move and serve."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, TimestepBatchNormalization
from tests import oracles
from tests.rnn import kinds
from tests.rnn.kinds import KINDS, MASK, MASKS, TIME, MovingNorms

STEPS = 3  # rows; sequences of TIME = 4 steps share the last one
ONE_ALIVE = MASK & np.array([[1], [0], [0], [1], [1]], bool)  # step 1 has one alive sequence
each_kind_and_each_norm = pytest.mark.parametrize(
    ("kind", "norm"),
    [
        (kinds.LSTM, kinds.BATCH_NORMS["timestep"]),
        (kinds.GRU, kinds.BATCH_NORMS["batch"]),
        (kinds.SIMPLE_RNN, kinds.BATCH_NORMS["timestep"]),
    ],
    ids=str,
)


def timestep(**kwargs):
    return TimestepBatchNormalization(STEPS, **kwargs)


def state(layer):
    return {weight.path: weight.numpy() for weight in layer.non_trainable_weights}


def assert_same_statistics(layer, moving):
    for slot, oracle in moving.items():
        norm = getattr(layer.cell, slot)
        pairs = [
            (norm.moving_mean, oracle.moving_mean),
            (norm.moving_variance, oracle.moving_variance),
        ]
        for actual, expected in pairs:
            np.testing.assert_allclose(actual, expected.reshape(actual.shape), rtol=0, atol=1e-10)
        if norm.update_count is not None:
            np.testing.assert_array_equal(np.ravel(norm.update_count), oracle.update_count)


def train(layer, x, states, mask=None):
    return layer(kinds.cast(x), initial_state=kinds.cast(states), mask=mask, training=True)


# Training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "mask", "options"),
    [
        (kinds.LSTM, "unmasked", {}),
        (kinds.LSTM, "masked", {"go_backwards": True}),
        (kinds.LSTM, "one alive", {}),
        (kinds.GRU, "masked", {}),
        (kinds.GRU, "one alive", {"go_backwards": True}),
        (kinds.SIMPLE_RNN, "masked", {}),
        (kinds.SIMPLE_RNN, "unmasked", {"go_backwards": True}),
    ],
    ids=str,
)
def test_two_batches_of_different_lengths(kind, mask, options):
    mask = {**MASKS, "one alive": ONE_ALIVE}[mask]
    layer = kinds.build(kind, timestep(momentum=0.7), **options)
    moving, states = MovingNorms(layer.cell), kinds.initial_states(kind)
    for time in (TIME, 2, TIME):
        x = kinds.inputs(time=time)
        now = None if mask is None else mask[:, :time]
        expected = kinds.reference(
            layer.cell,
            kinds.values(layer.cell),
            x,
            states,
            now,
            training=True,
            moving=moving,
            **options,
        )
        kinds.assert_close(train(layer, x, states, now), expected)
        assert_same_statistics(layer, moving)
    # Then inference, with the rows as they are.
    actual = layer(x, initial_state=kinds.cast(states), mask=mask)
    expected = kinds.reference(
        layer.cell, kinds.values(layer.cell), x, states, mask, moving=moving, **options
    )
    kinds.assert_close(actual, expected)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (kinds.LSTM, {"momentum": None}),
        (kinds.GRU, {"debias": False}),
        (kinds.SIMPLE_RNN, {"unbiased_variance": True, "center": False}),
        (kinds.LSTM, {"epsilon": 1e-2, "scale": False}),
    ],
    ids=str,
)
def test_options_of_the_template_reach_every_slot(kind, options):
    layer = kinds.build(kind, timestep(**options))
    moving, states = MovingNorms(layer.cell), kinds.initial_states(kind)
    for seed in (0, 1):
        x = kinds.draw(*kinds.inputs().shape, seed=seed)
        expected = kinds.reference(
            layer.cell, kinds.values(layer.cell), x, states, MASK, training=True, moving=moving
        )
        kinds.assert_close(train(layer, x, states, MASK), expected)
        assert_same_statistics(layer, moving)


@functools.cache
def gradients_with_one_alive(kind):
    """By the oracle: one for the gradient by hand and for the loop."""
    cell = kinds.build(kind, timestep()).cell

    def run(weights, x, states):
        moving = MovingNorms(cell)
        return kinds.reference(cell, weights, x, states, ONE_ALIVE, training=True, moving=moving)

    return kinds.reference_gradients(cell, kinds.inputs(), kinds.initial_states(kind), run)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("compiled", ["auto", False])
def test_gradients_flow_through_the_statistics_of_the_batch(kind, compiled):
    layer = kinds.build(kind, timestep(), compiled=compiled)
    x, states = kinds.inputs(), kinds.initial_states(kind)
    actual = kinds.gradients(layer, x, states, mask=ONE_ALIVE, training=True)
    kinds.assert_same_gradients(actual, gradients_with_one_alive(kind), 1e-9)


def single_row_reference(cell, weights, x, states, mask, moving):
    """Slots of W x have one statistic over all alive positions, the others one at each step."""
    alive = np.ones(x.shape[:2], bool) if mask is None else mask
    flat = {}
    for slot in list(moving):
        if slot.startswith("kernel"):
            columns = {"kernel_norm": slice(0, moving[slot].features)}
            columns["kernel_candidate_norm"] = slice(-moving[slot].features, None)
            z = (x @ weights["kernel"])[..., columns[slot]]
            flat[slot] = oracles.batch_statistics(z[alive])
            moving[slot].pending[0].append(flat[slot])

    class Fixed:
        gamma = beta = None

        def __init__(self, slot):
            self.statistics, self.epsilon = flat[slot], moving[slot].epsilon

        def step(self, z, t, alive, training):
            return oracles.batch_norm_inference(
                z, *self.statistics, self.gamma, self.beta, epsilon=self.epsilon
            )

    class Norms(dict):
        def end_batch(self):
            moving.end_batch()

    norms = Norms({**moving, **{slot: Fixed(slot) for slot in flat}})
    return kinds.reference(cell, weights, x, states, mask, training=True, moving=norms)


@pytest.mark.parametrize(
    ("kind", "mask", "options"),
    [
        (kinds.LSTM, "masked", {}),
        (kinds.GRU, "masked", {"momentum": None}),
        (kinds.SIMPLE_RNN, "masked", {"debias": True}),
        (kinds.LSTM, "unmasked", {"debias": True}),
        (kinds.GRU, "unmasked", {}),
    ],
    ids=str,
)
def test_batch_normalization_has_one_row_that_moves_once_a_batch(kind, mask, options):
    mask = MASKS[mask]
    layer = kinds.build(kind, BatchNormalization(**options))
    moving, states = MovingNorms(layer.cell), kinds.initial_states(kind)
    for time in (TIME, 2):
        x = kinds.inputs(time=time)
        now = None if mask is None else mask[:, :time]
        expected = single_row_reference(
            layer.cell, kinds.values(layer.cell), x, states, now, moving
        )
        kinds.assert_close(train(layer, x, states, now), expected)
        assert_same_statistics(layer, moving)


@pytest.mark.parametrize("kind", [kinds.GRU, kinds.SIMPLE_RNN], ids=str)
def test_gradients_of_batch_normalization(kind):
    layer = kinds.build(kind, BatchNormalization())
    x, states = kinds.inputs(), kinds.initial_states(kind)

    def run(weights, x, states):
        return single_row_reference(layer.cell, weights, x, states, MASK, MovingNorms(layer.cell))

    kinds.assert_same_gradients(
        kinds.gradients(layer, x, states, mask=MASK, training=True),
        kinds.reference_gradients(layer.cell, x, states, run),
        1e-9,
    )


@pytest.mark.parametrize("slot", ["kernel_norm", "recurrent_norm"])
def test_statistics_in_one_slot_and_rows_in_another(slot):
    other = {"kernel_norm": "recurrent_norm", "recurrent_norm": "kernel_norm"}[slot]
    norm = {slot: timestep(), other: keras.layers.LayerNormalization()}
    layer = kinds.build(kinds.LSTM, norm)
    layer(kinds.inputs(), training=True)
    np.testing.assert_array_equal(getattr(layer.cell, slot).update_count, np.ones(STEPS))


# When nothing is learned ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_batch_of_one_sequence_uses_and_keeps_the_moving_statistics(kind):
    layer = kinds.build(kind, timestep())
    kinds.randomize_statistics(layer)
    before, x = state(layer), kinds.inputs(batch=1)
    kinds.assert_close(layer(x, training=True), layer(x), 1e-12)
    kinds.assert_close(state(layer), before, 0)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("norm", kinds.BATCH_NORMS.values(), ids=kinds.BATCH_NORMS)
def test_batch_that_is_masked_everywhere_moves_nothing(kind, norm):
    layer = kinds.build(kind, norm)
    kinds.randomize_statistics(layer)
    before, states = state(layer), kinds.initial_states(kind)
    _, *after = train(layer, kinds.inputs(), states, np.zeros_like(MASK))
    kinds.assert_close(state(layer), before, 0)
    kinds.assert_close(after, states, 0)


@each_kind_and_each_norm
def test_masked_inputs_reach_neither_outputs_statistics_nor_gradients(kind, norm):
    results = []
    for filling in (0.0, 1e3):
        layer = kinds.build(kind, norm)
        x, states = np.where(MASK[..., None], kinds.inputs(), filling), kinds.initial_states(kind)
        found = kinds.gradients(layer, x, states, mask=MASK, training=True)
        outputs = train(layer, x, states, MASK)
        results.append([found, state(layer), outputs])
    (found, *others), (found_filled, *others_filled) = results
    kinds.assert_same_gradients(found_filled, found)
    kinds.assert_close(others_filled, others)


@each_kind_and_each_norm
def test_nan_in_masked_steps_reaches_neither_outputs_nor_statistics(kind, norm):
    results = []
    for filling in (0.0, np.nan):
        layer = kinds.build(kind, norm)
        x = np.where(MASK[..., None], kinds.inputs(), filling)
        results.append([train(layer, x, kinds.initial_states(kind), MASK), state(layer)])
    kinds.assert_close(results[1], results[0])


@pytest.mark.parametrize("norm", kinds.BATCH_NORMS.values(), ids=kinds.BATCH_NORMS)
@pytest.mark.parametrize("when", ["constructor", "before build", "after build", "one slot"])
def test_frozen_layer_runs_in_inference_form_and_moves_nothing(norm, when):
    kind = kinds.LSTM
    layer = kind.layer(kinds.UNITS, norm=norm, dtype="float64", trainable=when != "constructor")
    if when == "before build":
        layer.trainable = False
    kinds.built(layer)
    kinds.randomize_statistics(layer)
    if when == "after build":
        layer.trainable = False
    if when == "one slot":
        for norm_layer in layer.cell.slot_layers().values():
            norm_layer.trainable = False
    before, x = state(layer), kinds.inputs()
    kinds.assert_close(layer(x, training=True), layer(x), 1e-12)
    kinds.assert_close(state(layer), before, 0)


def test_layer_frozen_before_its_build_can_be_thawed():
    layer = kinds.LSTM.layer(kinds.UNITS, norm=timestep(), dtype="float64", trainable=False)
    kinds.built(layer)
    assert layer.trainable_weights == []
    layer.trainable = True
    assert len(layer.trainable_weights) == 3 + 2 * len(kinds.LSTM.slots)
    layer(kinds.inputs(), training=True)
    for norm in layer.cell.slot_layers().values():
        np.testing.assert_array_equal(norm.update_count, np.ones(STEPS))


def test_frozen_template_is_frozen_in_every_slot():
    layer = kinds.build(kinds.LSTM, timestep(trainable=False))
    kinds.randomize_statistics(layer)
    before = state(layer)
    assert len(layer.trainable_weights) == 3
    layer(kinds.inputs(), training=True)
    kinds.assert_close(state(layer), before, 0)


# Inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("norm", kinds.BATCH_NORMS.values(), ids=kinds.BATCH_NORMS)
def test_inference_uses_the_moving_statistics(kind, norm, mask):
    layer = kinds.build(kind, norm)
    kinds.randomize_statistics(layer)
    kinds.assert_follows_oracle(layer, mask)


@pytest.mark.parametrize(
    ("kind", "norm"),
    [(kinds.GRU, "batch"), (kinds.SIMPLE_RNN, "timestep")],
    ids=str,
)
def test_gradients_at_inference(kind, norm):
    layer = kinds.build(kind, kinds.BATCH_NORMS[norm])
    kinds.randomize_statistics(layer)
    kinds.assert_gradients_follow_oracle(layer, MASK, training=False)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("reached", [1, 2, 3])
def test_inference_uses_the_last_row_that_training_reached(kind, reached):
    layer = kinds.build(kind, timestep())
    kinds.randomize_statistics(layer, reached)
    kinds.assert_follows_oracle(layer, None)


def test_sequences_longer_than_max_timesteps_share_the_last_row():
    layer, longer = (
        kinds.build(kinds.LSTM, timestep()),
        kinds.build(kinds.LSTM, TimestepBatchNormalization(7)),
    )
    kinds.randomize_statistics(layer)
    for few, many in zip(layer.non_trainable_weights, longer.non_trainable_weights, strict=True):
        many.assign(few.numpy()[np.minimum(np.arange(7), STEPS - 1)])
    x = kinds.inputs(time=7)
    kinds.assert_close(layer(x), longer(x), 1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("norm", kinds.BATCH_NORMS.values(), ids=kinds.BATCH_NORMS)
def test_inference_changes_nothing(kind, norm):
    layer = kinds.build(kind, norm)
    before = state(layer)
    layer(kinds.inputs(), mask=MASK)
    kinds.assert_close(state(layer), before, 0)


# keras.layers.RNN -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "graph"), [*((kind, False) for kind in KINDS), (kinds.SIMPLE_RNN, True)], ids=str
)
def test_cell_in_keras_rnn_trains_with_the_same_outputs(kind, graph):
    """Without a mask: keras.layers.RNN does not show it to the cell."""
    layer = kinds.build(kind, timestep())
    rnn = keras.layers.RNN(layer.cell, return_sequences=True, dtype="float64")
    x = tf.constant(kinds.inputs())

    def run(x):
        return rnn(x, training=True)

    actual = tf.function(run, autograph=False)(x) if graph else run(x)
    kinds.assert_close(actual, layer(x, training=True)[0], 1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_statistics_in_keras_rnn_are_those_of_the_layer_after_row_0(kind):
    """Row 0 moves twice: keras.layers.RNN evaluates the cell once to learn its output's shape."""
    layer = kinds.build(kind, TimestepBatchNormalization(TIME, momentum=None))
    cell = kind.cell.from_config(layer.cell.get_config())
    rnn = keras.layers.RNN(cell, dtype="float64")
    rnn.build((None, None, kinds.FEATURES))
    cell.set_weights(layer.cell.get_weights())
    x = kinds.inputs()
    layer(x, training=True)
    rnn(x, training=True)
    for slot, norm in layer.cell.slot_layers().items():
        other = getattr(cell, slot)
        np.testing.assert_array_equal(other.update_count[1:], norm.update_count[1:])
        kinds.assert_close(
            [other.moving_mean, other.moving_variance], [norm.moving_mean, norm.moving_variance]
        )
