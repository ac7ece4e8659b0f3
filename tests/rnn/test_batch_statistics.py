"""Batch normalization inside recurrences: training, updates of statistics, inference."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, TimestepBatchNormalization
from tests import oracles
from tests.rnn import kinds
from tests.rnn.kinds import KINDS, MASK, MASKS, TIME, MovingNorms

STEPS = 3  # timesteps with statistics; sequences have TIME = 4, so the last two share theirs
# Timestep 1 has one unmasked sequence.
ONE_UNMASKED = MASK & np.array([[1], [0], [0], [1], [1]], bool)
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
        (kinds.LSTM, "one unmasked", {}),
        (kinds.GRU, "masked", {}),
        (kinds.GRU, "one unmasked", {"go_backwards": True}),
        (kinds.SIMPLE_RNN, "masked", {}),
        (kinds.SIMPLE_RNN, "unmasked", {"go_backwards": True}),
    ],
    ids=str,
)
def test_training_on_batches_of_different_lengths_matches_the_equations(kind, mask, options):
    mask = {**MASKS, "one unmasked": ONE_UNMASKED}[mask]
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
    # Inference with the statistics of the three batches.
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
def test_options_of_the_template_apply_to_every_slot(kind, options):
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
def reference_gradients_with_one_unmasked(kind):
    """Differentiate the oracle, once for the compiled path and the loop."""
    cell = kinds.build(kind, timestep()).cell

    def run(weights, x, states):
        moving = MovingNorms(cell)
        return kinds.reference(cell, weights, x, states, ONE_UNMASKED, training=True, moving=moving)

    return kinds.reference_gradients(cell, kinds.inputs(), kinds.initial_states(kind), run)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("compiled", ["auto", False])
def test_gradients_flow_through_the_batch_statistics(kind, compiled):
    layer = kinds.build(kind, timestep(), compiled=compiled)
    x, states = kinds.inputs(), kinds.initial_states(kind)
    actual = kinds.gradients(layer, x, states, mask=ONE_UNMASKED, training=True)
    kinds.assert_same_gradients(actual, reference_gradients_with_one_unmasked(kind), 1e-9)


def single_row_reference(cell, weights, x, states, mask, moving):
    """Run the oracle with BatchNormalization in every slot.

    Slots of W x have one statistic over all unmasked timesteps, other slots one per timestep.
    """
    unmasked = np.ones(x.shape[:2], bool) if mask is None else mask
    flat = {}
    for slot in list(moving):
        if slot.startswith("kernel"):
            columns = {"kernel_norm": slice(0, moving[slot].features)}
            columns["kernel_candidate_norm"] = slice(-moving[slot].features, None)
            z = (x @ weights["kernel"])[..., columns[slot]]
            flat[slot] = oracles.batch_statistics(z[unmasked])
            moving[slot].pending[0].append(flat[slot])

    class Fixed:
        gamma = beta = None

        def __init__(self, slot):
            self.statistics, self.epsilon = flat[slot], moving[slot].epsilon

        def step(self, z, t, unmasked, training):
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
def test_batch_normalization_updates_its_statistics_once_per_batch(kind, mask, options):
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
def test_gradients_of_batch_normalization_match_the_equations(kind):
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
def test_timestep_statistics_and_layer_norm_mix_in_one_cell(slot):
    other = {"kernel_norm": "recurrent_norm", "recurrent_norm": "kernel_norm"}[slot]
    norm = {slot: timestep(), other: keras.layers.LayerNormalization()}
    layer = kinds.build(kinds.LSTM, norm)
    layer(kinds.inputs(), training=True)
    np.testing.assert_array_equal(getattr(layer.cell, slot).update_count, np.ones(STEPS))


# No update of the statistics --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_batch_of_one_sequence_uses_the_moving_statistics_without_an_update(kind):
    layer = kinds.build(kind, timestep())
    kinds.randomize_statistics(layer)
    before, x = state(layer), kinds.inputs(batch=1)
    kinds.assert_close(layer(x, training=True), layer(x), 1e-12)
    kinds.assert_close(state(layer), before, 0)


@each_kind_and_each_norm
def test_a_fully_masked_batch_updates_no_statistics(kind, norm):
    layer = kinds.build(kind, norm)
    kinds.randomize_statistics(layer)
    before, states = state(layer), kinds.initial_states(kind)
    _, *after = train(layer, kinds.inputs(), states, np.zeros_like(MASK))
    kinds.assert_close(state(layer), before, 0)
    kinds.assert_close(after, states, 0)


@each_kind_and_each_norm
def test_masked_inputs_do_not_change_outputs_statistics_or_gradients(kind, norm):
    results = []
    for filling in (0.0, np.nan):
        layer = kinds.build(kind, norm)
        x = kinds.cast(np.where(MASK[..., None], kinds.inputs(), filling))
        states = kinds.cast(kinds.initial_states(kind))
        results.append([kinds.train(layer, x, states, MASK), state(layer)])
    kinds.assert_close(results[1], results[0])


@pytest.mark.parametrize(
    ("norm", "when"),
    [
        (BatchNormalization(), "after build"),
        *((timestep(), w) for w in ("constructor", "before build", "after build", "one slot")),
    ],
    ids=["batch", "constructor", "before build", "after build", "one slot"],
)
def test_a_frozen_layer_uses_moving_statistics_without_an_update(norm, when):
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


def test_a_layer_frozen_before_build_can_be_unfrozen():
    layer = kinds.LSTM.layer(kinds.UNITS, norm=timestep(), dtype="float64", trainable=False)
    kinds.built(layer)
    assert layer.trainable_weights == []
    layer.trainable = True
    assert len(layer.trainable_weights) == 3 + 2 * len(kinds.LSTM.slots)
    layer(kinds.inputs(), training=True)
    for norm in layer.cell.slot_layers().values():
        np.testing.assert_array_equal(norm.update_count, np.ones(STEPS))


def test_a_frozen_template_freezes_every_slot():
    layer = kinds.build(kinds.LSTM, timestep(trainable=False))
    kinds.randomize_statistics(layer)
    before = state(layer)
    assert len(layer.trainable_weights) == 3
    layer(kinds.inputs(), training=True)
    kinds.assert_close(state(layer), before, 0)


# Inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("norm", kinds.BATCH_NORMS.values(), ids=kinds.BATCH_NORMS)
def test_inference_uses_the_moving_statistics_without_an_update(kind, norm):
    layer = kinds.build(kind, norm)
    kinds.randomize_statistics(layer)
    before = state(layer)
    kinds.assert_follows_oracle(layer, MASK)
    kinds.assert_close(state(layer), before, 0)


@pytest.mark.parametrize(
    ("kind", "norm"),
    [(kinds.GRU, "batch"), (kinds.SIMPLE_RNN, "timestep")],
    ids=str,
)
def test_inference_gradients_of_batch_norms_match_the_equations(kind, norm):
    layer = kinds.build(kind, kinds.BATCH_NORMS[norm])
    kinds.randomize_statistics(layer)
    kinds.assert_gradients_follow_oracle(layer, MASK, training=False)


@pytest.mark.parametrize(
    ("kind", "reached"), [(kinds.LSTM, 1), (kinds.GRU, 2), (kinds.SIMPLE_RNN, 3)], ids=str
)
def test_inference_uses_the_statistics_of_the_last_trained_timestep(kind, reached):
    layer = kinds.build(kind, timestep())
    kinds.randomize_statistics(layer, reached)
    kinds.assert_follows_oracle(layer, None)


def test_timesteps_beyond_max_timesteps_share_the_last_statistics():
    layer, longer = (
        kinds.build(kinds.LSTM, timestep()),
        kinds.build(kinds.LSTM, TimestepBatchNormalization(7)),
    )
    kinds.randomize_statistics(layer)
    for few, many in zip(layer.non_trainable_weights, longer.non_trainable_weights, strict=True):
        many.assign(few.numpy()[np.minimum(np.arange(7), STEPS - 1)])
    x = kinds.inputs(time=7)
    kinds.assert_close(layer(x), longer(x), 1e-12)


# keras.layers.RNN -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "graph"),
    [(kinds.LSTM, False), (kinds.GRU, False), (kinds.SIMPLE_RNN, True)],
    ids=str,
)
def test_training_keras_rnn_over_the_cell_equals_training_the_layer(kind, graph):
    """Outputs and statistics are equal, except the statistics of the first timestep.

    keras.layers.RNN also calls the cell for its output shape, so row 0 is updated twice. The layer
    has no mask here, because keras.layers.RNN hides the mask from a cell.
    """
    layer = kinds.build(kind, TimestepBatchNormalization(TIME, momentum=None))
    cell = kind.cell.from_config(layer.cell.get_config())
    rnn = keras.layers.RNN(cell, return_sequences=True, dtype="float64")
    rnn.build((None, None, kinds.FEATURES))
    cell.set_weights(layer.cell.get_weights())
    x = kinds.cast(kinds.inputs())

    def run(x):
        return rnn(x, training=True)

    actual = tf.function(run, autograph=False)(x) if graph else run(x)
    kinds.assert_close(actual, layer(x, training=True)[0], 1e-12)
    for slot, norm in layer.cell.slot_layers().items():
        other = getattr(cell, slot)
        np.testing.assert_array_equal(other.update_count[1:], norm.update_count[1:])
        kinds.assert_close(
            [other.moving_mean, other.moving_variance], [norm.moving_mean, norm.moving_variance]
        )
