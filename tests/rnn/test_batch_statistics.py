"""Batch normalization inside recurrences: training, updates of statistics, inference."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, TimestepBatchNormalization
from tests import oracles
from tests.rnn import kinds
from tests.rnn.kinds import GRU, LSTM, MASK, SIMPLE_RNN, TIME, MovingNorms

STEPS = 3  # timesteps with statistics; sequences have TIME = 4, so the last two share theirs
# Timestep 1 has one unmasked sequence.
ONE_UNMASKED = MASK & np.array([[1], [0], [0], [1], [1]], bool)
each_kind_and_each_norm = pytest.mark.parametrize(
    ("kind", "norm"),
    [
        (LSTM, kinds.BATCH_NORMS["timestep"]),
        (GRU, kinds.BATCH_NORMS["batch"]),
        (SIMPLE_RNN, kinds.BATCH_NORMS["timestep"]),
    ],
    ids=str,
)


def timestep(**kwargs):
    return TimestepBatchNormalization(STEPS, **kwargs)


def assert_same_statistics(layer, moving):
    for slot, oracle in moving.items():
        norm = getattr(layer.cell, slot)
        for name in ("moving_mean", "moving_variance"):
            actual, expected = getattr(norm, name), getattr(oracle, name)
            np.testing.assert_allclose(actual, expected.reshape(actual.shape), rtol=0, atol=1e-10)
        if norm.update_count is not None:
            np.testing.assert_array_equal(np.ravel(norm.update_count), oracle.update_count)


def train(layer, x, states, mask=None):
    return layer(kinds.cast(x), initial_state=kinds.cast(states), mask=mask, training=True)


# Training ---------------------------------------------------------------------------------------


def reference(cell, weights, x, states, mask, moving, **options):
    """Train with the oracle.

    A BatchNormalization of W x has one statistic over all unmasked timesteps. All other norms have
    a statistic for each timestep.
    """
    unmasked = np.ones(x.shape[:2], bool) if mask is None else mask
    flat = {}
    for slot, norm in cell.slot_layers().items():
        if slot.startswith("kernel") and isinstance(norm, BatchNormalization):
            width = moving[slot].features
            columns = slice(-width, None) if "candidate" in slot else slice(0, width)
            flat[slot] = oracles.batch_statistics((x @ weights["kernel"])[unmasked][:, columns])
            moving[slot].pending[0].append(flat[slot])

    class Fixed:
        gamma = beta = None

        def __init__(self, slot):
            self.statistics, self.epsilon = flat[slot], moving[slot].epsilon

        def step(self, z, t, unmasked, training):
            affine = self.gamma, self.beta
            return oracles.batch_norm_inference(z, *self.statistics, *affine, epsilon=self.epsilon)

    class Norms(dict):
        def end_batch(self):
            moving.end_batch()

    norms = Norms({**moving, **{slot: Fixed(slot) for slot in flat}})
    options = {"training": True, "moving": norms, **options}
    return kinds.reference(cell, weights, x, states, mask, **options)


@pytest.mark.parametrize(
    ("kind", "mask", "norm", "options"),
    [
        (LSTM, None, timestep(momentum=0.7), {}),
        (LSTM, MASK, timestep(momentum=None), {"go_backwards": True}),
        (LSTM, ONE_UNMASKED, timestep(epsilon=1e-2, scale=False), {}),
        (GRU, MASK, timestep(debias=False), {}),
        (GRU, ONE_UNMASKED, timestep(momentum=0.7), {"go_backwards": True}),
        (SIMPLE_RNN, MASK, timestep(unbiased_variance=True, center=False), {}),
        (LSTM, MASK, BatchNormalization(), {}),
        (GRU, MASK, BatchNormalization(momentum=None), {}),
        (SIMPLE_RNN, None, BatchNormalization(debias=True), {}),
    ],
    ids=str,
)
def test_training_on_batches_of_different_lengths_matches_the_equations(kind, mask, norm, options):
    layer = kinds.build(kind, norm, **options)
    moving, states = MovingNorms(layer.cell), kinds.initial_states(kind)
    weights = kinds.values(layer.cell)
    for time in (TIME, 2, TIME):
        x, now = kinds.inputs(time=time), None if mask is None else mask[:, :time]
        expected = reference(layer.cell, weights, x, states, now, moving, **options)
        kinds.assert_close(train(layer, x, states, now), expected)
        assert_same_statistics(layer, moving)
    # Inference with the statistics of the three batches.
    expected = kinds.reference(layer.cell, weights, x, states, mask, moving=moving, **options)
    kinds.assert_close(layer(x, initial_state=kinds.cast(states), mask=mask), expected, 1e-7)


@pytest.mark.parametrize(
    ("kind", "norm"),
    [
        (LSTM, timestep()),
        (GRU, timestep()),
        (LSTM, timestep(min_sequences=3)),
        (SIMPLE_RNN, timestep(epsilon=0.0)),
        (GRU, BatchNormalization()),
    ],
    ids=str,
)
def test_gradients_flow_through_the_statistics(kind, norm):
    mask = MASK if isinstance(norm, BatchNormalization) else ONE_UNMASKED
    cell = kinds.build(kind, norm).cell

    def run(weights, x, states):
        return reference(cell, weights, x, states, mask, MovingNorms(cell))

    exact = kinds.reference_gradients(cell, kinds.inputs(), kinds.initial_states(kind), run)
    for compiled in ("auto", False):
        layer = kinds.build(kind, norm, compiled=compiled)
        kinds.assert_gradients_equal(layer, exact, mask, True, 1e-9)


def test_the_loop_has_gradients_through_earlier_statistics_at_dynamic_sizes():
    layer, x = kinds.build(LSTM, timestep(), compiled=False), kinds.inputs()

    def gradients(x, mask):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(layer(x, mask=mask, training=True)[0] ** 2)
        return tape.gradient(y, [v.value for v in layer.trainable_variables])

    spec = [tf.TensorSpec((None, None, x.shape[-1]), x.dtype), tf.TensorSpec((None, None), "bool")]
    found = tf.function(gradients, spec, autograph=False)(x, ONE_UNMASKED)
    kinds.assert_close(found, gradients(tf.constant(x), tf.constant(ONE_UNMASKED)))


# No update of the statistics --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["one sequence", "fully masked", "frozen", "frozen slots"])
@each_kind_and_each_norm
def test_without_statistics_of_the_batch_the_moving_statistics_are_used_unchanged(kind, norm, how):
    if how == "one sequence":
        norm = timestep()  # a BatchNormalization of W x has the statistics of all timesteps
    layer, states = kinds.build(kind, norm), kinds.initial_states(kind)
    kinds.randomize_statistics(layer)
    before = layer.get_weights()
    x, mask = kinds.inputs(batch=1 if how == "one sequence" else kinds.BATCH), None
    if how == "fully masked":
        mask = np.zeros_like(MASK)
    layer.trainable = how != "frozen"
    if how == "frozen slots":
        for slot_layer in layer.cell.slot_layers().values():
            slot_layer.trainable = False
    states = [state[: len(x)] for state in states]
    trained = train(layer, x, states, mask)
    kinds.assert_close(trained, layer(x, initial_state=kinds.cast(states), mask=mask), 1e-12)
    kinds.assert_close(layer.get_weights(), before, 0)


def test_a_layer_frozen_by_its_constructor_or_before_build_can_be_unfrozen():
    for options in ({"trainable": False}, {}):
        layer = LSTM.layer(kinds.UNITS, norm=timestep(), dtype="float64", **options)
        layer.trainable = False
        kinds.built(layer)
        before = layer.get_weights()
        layer(kinds.inputs(), training=True)
        assert layer.trainable_weights == []
        kinds.assert_close(layer.get_weights(), before, 0)
        layer.trainable = True
        assert len(layer.trainable_weights) == 3 + 2 * len(LSTM.slots)
        layer(kinds.inputs(), training=True)
        for norm in layer.cell.slot_layers().values():
            np.testing.assert_array_equal(norm.update_count, np.ones(STEPS))


def test_a_frozen_template_freezes_every_slot():
    layer = kinds.build(LSTM, timestep(trainable=False))
    before = kinds.statistics(layer)
    assert len(layer.trainable_weights) == 3
    layer(kinds.inputs(), training=True)
    kinds.assert_close(kinds.statistics(layer), before, 0)


# Inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "norm", "reached"),
    [
        (LSTM, "timestep", 1),
        (GRU, "timestep", 2),
        (SIMPLE_RNN, "timestep", None),
        (LSTM, "batch", None),
        (GRU, "batch", None),
    ],
    ids=str,
)
def test_inference_uses_the_statistics_of_the_last_trained_timestep(kind, norm, reached):
    """Outputs and gradients follow the oracle, and the statistics do not change."""
    layer = kinds.build(kind, kinds.BATCH_NORMS[norm])
    kinds.randomize_statistics(layer, reached)
    before = kinds.statistics(layer)
    kinds.assert_follows_oracle(layer, MASK)
    exact = kinds.oracle_gradients(layer, MASK)
    kinds.assert_gradients_equal(layer, exact, MASK, training=False)
    kinds.assert_close(kinds.statistics(layer), before, 0)


# keras.layers.RNN -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "graph"), [(LSTM, False), (SIMPLE_RNN, True)], ids=str)
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
