"""TimestepBatchNormalization against Cooijmans et al., section 3.

test_batch_statistics.py tests how the moving statistics average over batches, and what this layer
and BatchNormalization have in common.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import TimestepBatchNormalization
from tests import oracles
from tests.check_layer import layer_gradients

RNG = np.random.default_rng(0)
STEPS = 4  # max_timesteps
WIDTH = 3
TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
MASKS = {
    "none": None,
    "right": np.arange(4) < np.array([[4], [3], [3], [2], [1]]),
    "left": np.arange(4) >= np.array([[0], [0], [1], [2], [2]]),
    "broken": np.array(
        [[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 0]], bool
    ),
    "one unmasked": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]] + [[0] * 4] * 2, bool),
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def draw(time, batch=5):
    return RNG.normal(1.0, 2.0, size=(batch, time, WIDTH))


def layer_and_oracle(dtype="float64", max_timesteps=STEPS, **kwargs):
    """Build a layer with random gamma and beta, and an oracle with equal weights."""
    layer = TimestepBatchNormalization(max_timesteps, dtype=dtype, **kwargs)
    layer.build((None, None, WIDTH))
    affine = [RNG.normal(size=WIDTH) for _ in layer.trainable_weights]
    for weight, value in zip(layer.trainable_weights, affine, strict=True):
        weight.assign(value)
    return layer, oracles.TimestepBatchNorm(max_timesteps, WIDTH, *affine, **kwargs)


def unmasked_of(mask, time=4):
    return np.ones((5, time), bool) if mask is None else mask


def train(layer, oracle, x, mask=None, atol=1e-11):
    """Train the layer and the oracle on one batch, and compare outputs and statistics."""
    y = np.asarray(layer(x, training=True, mask=None if mask is None else tf.constant(mask)))
    expected = oracles.timestep_batch_norm(oracle, x.astype("float64"), mask, training=True)
    unmasked = np.ones(x.shape[:2], bool) if mask is None else mask
    np.testing.assert_allclose(y[unmasked], expected[unmasked], rtol=atol, atol=atol)
    np.testing.assert_allclose(layer.moving_mean, oracle.moving_mean, rtol=0, atol=atol)
    np.testing.assert_allclose(layer.moving_variance, oracle.moving_variance, rtol=atol)
    np.testing.assert_array_equal(layer.update_count, oracle.update_count)


def assert_infers_like(layer, oracle, time):
    x = draw(time)
    expected = oracles.timestep_batch_norm(oracle, x)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-11, atol=1e-11)


def test_operations_do_not_grow_with_time(implementation):
    def operations(time):
        layer = TimestepBatchNormalization(time)
        layer.build((None, time, WIDTH))
        function = tf.function(lambda x: layer(x, training=True))
        spec = tf.TensorSpec((None, time, WIDTH))
        return function.get_concrete_function(spec).graph.get_operations()

    few, many = operations(3), operations(30)
    assert len(few) == len(many)
    assert not [operation.name for operation in many if "While" in operation.type]


# Training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "implementation"),
    [
        *((name, dtype, "composed") for name in MASKS for dtype in TOLERANCE),
        ("none", "float32", "fused"),
    ],
    indirect=["implementation"],
)
@pytest.mark.parametrize("min_sequences", [2, 3, 8])
def test_each_timestep_is_normalized_over_its_unmasked_sequences(
    name, dtype, implementation, min_sequences
):
    """A timestep without enough sequences has the statistics of an earlier one."""
    layer, oracle = layer_and_oracle(dtype, min_sequences=min_sequences)
    # A batch without a mask first: statistics of two sequences alone are ill-conditioned.
    for mask in (None, MASKS[name], MASKS[name]):
        train(layer, oracle, draw(4).astype(dtype), mask, TOLERANCE[dtype])


@pytest.mark.parametrize("time", [1, 3, 5, 9])
def test_training_equals_the_oracle_at_every_length(time):
    layer, oracle = layer_and_oracle()
    for mask in (None, RNG.random((5, time)) > 0.4, RNG.random((5, time)) > 0.4):
        train(layer, oracle, draw(time), mask)


def test_a_batch_of_one_sequence_updates_nothing(implementation):
    layer, _ = layer_and_oracle()
    before = layer.get_weights()
    x = draw(4, batch=1)
    np.testing.assert_allclose(layer(x, training=True), layer(x, training=False), atol=1e-6)
    layer(np.full((1, 4, WIDTH), np.nan), training=True)
    for weight, value in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)


@every_mask
@pytest.mark.parametrize("min_sequences", [2, 3, 8])
def test_gradients_are_exact(mask, min_sequences):
    layer, _ = layer_and_oracle(min_sequences=min_sequences)
    unmasked = unmasked_of(mask)
    sources = [draw(4), layer.gamma.numpy(), layer.beta.numpy()]
    weights = RNG.normal(size=sources[0].shape) * unmasked[..., None]

    def loss(x, gamma, beta):
        fresh = oracles.TimestepBatchNorm(STEPS, WIDTH, gamma, beta, min_sequences=min_sequences)
        return (weights * oracles.timestep_batch_norm(fresh, x, mask, training=True)).sum()

    actual = layer_gradients(
        layer,
        sources[0],
        lambda y: keras.ops.sum(weights * y),
        training=True,
        mask=None if mask is None else tf.constant(mask),
    )
    for k, source in enumerate(sources):
        expected = oracles.gradient(lambda v, k=k: loss(*sources[:k], v, *sources[k + 1 :]), source)
        np.testing.assert_allclose(actual[k], expected, rtol=1e-9, atol=1e-11)


def test_batch_and_time_may_be_dynamic():
    layer, oracle = layer_and_oracle()
    spec = [tf.TensorSpec((None, None, WIDTH), "float64"), tf.TensorSpec((None, None), "bool")]
    step = tf.function(lambda x, mask: layer(x, training=True, mask=mask), spec, jit_compile=True)
    for batch, time in [(5, 3), (4, 6)]:
        x, mask = draw(time, batch), RNG.random((batch, time)) > 0.2
        y = np.asarray(step(x, mask))
        expected = oracles.timestep_batch_norm(oracle, x, mask, training=True)
        np.testing.assert_allclose(y[mask], expected[mask], rtol=0, atol=1e-11)
    np.testing.assert_allclose(layer.moving_mean, oracle.moving_mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, oracle.moving_variance, rtol=1e-12)


# Inference --------------------------------------------------------------------------------------


@pytest.mark.parametrize("trained", [0, 1, 2, 4, 6])
def test_inference_uses_the_last_row_that_training_updated(trained):
    layer, oracle = layer_and_oracle()
    if trained:
        train(layer, oracle, draw(trained))
    assert_infers_like(layer, oracle, 7)


def test_inference_never_uses_a_row_that_training_skipped():
    """Training updates rows 1 and 4: timestep 0 uses row 1, the first updated row."""
    layer, oracle = layer_and_oracle(max_timesteps=6)
    x, mask = draw(6), np.zeros((5, 6), bool)
    mask[:, [1, 4]] = layer.count_leading_padding = True
    layer(x, training=True, mask=tf.constant(mask))
    oracles.timestep_batch_norm(oracle, x, mask, training=True, count_leading_padding=True)
    assert_infers_like(layer, oracle, 6)


# Single timesteps -------------------------------------------------------------------------------


@every_mask
def test_single_timesteps_equal_the_whole_sequence(mask):
    """A step is an int or a tensor. A single step does not know the timesteps before it."""
    sequence, oracle = layer_and_oracle(min_sequences=2)
    sequence.count_leading_padding = True  # all sequences are at timestep `step`
    train(sequence, oracle, draw(4))  # updates every row
    single, _ = layer_and_oracle()
    single.set_weights(sequence.get_weights())
    unmasked = unmasked_of(mask)
    for training, as_step in ((True, int), (True, tf.constant), (False, int)):
        x = draw(4)
        y = sequence(x, training=training, mask=tf.constant(unmasked))
        for t in range(4):
            if training and unmasked[:, t].sum() < 2:
                continue
            now = tf.constant(unmasked[:, t])
            y_t = single(x[:, t], training=training, mask=now, step=as_step(t))
            np.testing.assert_allclose(y_t[now], y[:, t][now], rtol=0, atol=1e-12)
    for ours, theirs in zip(single.get_weights(), sequence.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_call_with_a_step_builds_the_layer_and_a_late_step_uses_the_last_row():
    layer, x = TimestepBatchNormalization(STEPS, dtype="float64"), draw(1)[:, 0]
    y = layer(x, training=True, step=2)
    np.testing.assert_allclose(y, oracles.batch_norm_train(x, epsilon=1e-5)[0], rtol=0, atol=1e-12)
    layer(x, training=True, step=9)
    np.testing.assert_array_equal(layer.update_count, [0, 0, 1, 1])
    np.testing.assert_array_equal(layer(x, step=9), layer(x, step=3))


def test_training_in_a_graph_takes_a_step_for_each_sequence(implementation):
    """A cell in keras.layers.RNN calls its norms with a timestep for each sequence."""
    layer, x = TimestepBatchNormalization(4), draw(1)[:, 0]
    layer.build((None, WIDTH))
    spec = [tf.TensorSpec((None, WIDTH)), tf.TensorSpec((None,), "int32")]
    step = tf.function(lambda x, step: layer(x, training=True, step=step), spec)
    expected, *_ = oracles.batch_norm_train(x, epsilon=layer.epsilon)
    y = step(x.astype("float32"), np.ones(len(x), "int32"))
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)
