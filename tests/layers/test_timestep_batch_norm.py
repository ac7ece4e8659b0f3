"""TimestepBatchNormalization against Cooijmans et al., section 3.

test_batch_statistics.py tests how the moving statistics average over batches.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import TimestepBatchNormalization
from tests import oracles
from tests.check_layer import assert_refused, check_layer, layer_gradients

RNG = np.random.default_rng(0)
STEPS = 4  # max_timesteps
WIDTH = 3
MASKS = {
    "none": None,
    "right": np.arange(4) < np.array([[4], [3], [3], [2], [1]]),
    "left": np.arange(4) >= np.array([[0], [0], [1], [2], [2]]),
    "broken": np.array(
        [[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 1], [1, 1, 1, 0]], bool
    ),
    "one unmasked": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]] + [[0] * 4] * 2, bool),
}
every_implementation = pytest.mark.usefixtures("implementation")


def draw(time, batch=5):
    return RNG.normal(1.0, 2.0, size=(batch, time, WIDTH))


def layer_and_oracle(dtype="float64", max_timesteps=STEPS, **kwargs):
    """Build a layer with random gamma and beta, and an oracle with equal weights."""
    layer = TimestepBatchNormalization(max_timesteps, dtype=dtype, **kwargs)
    layer.build((None, None, WIDTH))
    layer.gamma.assign(RNG.normal(size=WIDTH))
    layer.beta.assign(RNG.normal(size=WIDTH))
    oracle = oracles.TimestepBatchNorm(
        max_timesteps, WIDTH, layer.gamma.numpy(), layer.beta.numpy(), **kwargs
    )
    return layer, oracle


def train(layer, oracle, x, mask=None):
    """Train the layer and the oracle on one batch; return both outputs."""
    mask_tensor = None if mask is None else tf.constant(mask)
    y = layer(x, training=True, mask=mask_tensor)
    return np.asarray(y), oracles.timestep_batch_norm(oracle, x, mask, training=True)


def assert_same_state(layer, oracle):
    np.testing.assert_allclose(layer.moving_mean, oracle.moving_mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, oracle.moving_variance, rtol=1e-12)
    np.testing.assert_array_equal(layer.update_count, oracle.update_count)


def state(layer):
    return [weight.numpy() for weight in layer.non_trainable_weights]


# The contract -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("implementation", "kwargs"),
    [
        ("composed", {"max_timesteps": 2, "momentum": None, "unbiased_variance": True}),
        ("fused", {"max_timesteps": 5, "debias": False, "epsilon": 1e-3}),
    ],
    indirect=["implementation"],
)
def test_layer_meets_the_contract_of_check_layer(implementation, kwargs):
    check_layer(
        TimestepBatchNormalization,
        kwargs,
        (4, 3, 5),
        expected_trainable=2,
        expected_non_trainable=3,
    )


def test_moving_statistics_have_a_row_for_each_timestep():
    layer = TimestepBatchNormalization(7)
    layer.build((None, None, 2))
    assert layer.gamma.shape == layer.beta.shape == (2,)
    assert layer.moving_mean.shape == layer.moving_variance.shape == (7, 2)
    assert layer.update_count.shape == (7,)
    assert "int" in layer.update_count.dtype


def test_without_gamma_and_beta_nothing_is_trainable():
    layer = TimestepBatchNormalization(4, center=False, scale=False, dtype="float64")
    x = draw(4)
    expected = oracles.timestep_batch_norm(oracles.TimestepBatchNorm(4, WIDTH), x, training=True)
    np.testing.assert_allclose(layer(x, training=True), expected, rtol=0, atol=1e-12)
    assert layer.trainable_weights == []


def test_initializers_regularizers_and_constraints_reach_the_weights():
    constant = keras.initializers.Constant
    layer = TimestepBatchNormalization(
        2,
        beta_initializer=constant(2),
        gamma_initializer=constant(3),
        moving_mean_initializer=constant(4),
        moving_variance_initializer=constant(5),
        beta_regularizer=keras.regularizers.L1(0.5),
        gamma_regularizer=keras.regularizers.L2(0.1),
        beta_constraint=keras.constraints.NonNeg(),
        gamma_constraint=keras.constraints.UnitNorm(),
    )
    layer.build((None, None, 5))
    np.testing.assert_allclose(sum(layer.losses), 0.5 * 5 * 2 + 0.1 * 5 * 9, rtol=1e-6)
    assert isinstance(layer.beta.constraint, keras.constraints.NonNeg)
    assert isinstance(layer.gamma.constraint, keras.constraints.UnitNorm)
    np.testing.assert_array_equal(layer.moving_mean, np.full((2, 5), 4))
    np.testing.assert_array_equal(layer.moving_variance, np.full((2, 5), 5))


@every_implementation
def test_operations_do_not_grow_with_time():
    def operations(time):
        layer = TimestepBatchNormalization(time)
        layer.build((None, time, WIDTH))
        function = tf.function(lambda x: layer(x, training=True))
        return function.get_concrete_function(
            tf.TensorSpec((None, time, WIDTH))
        ).graph.get_operations()

    few, many = operations(3), operations(30)
    assert len(few) == len(many)
    assert not [operation.name for operation in many if "While" in operation.type]


# Training ---------------------------------------------------------------------------------------


@every_implementation
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_timestep_is_normalized_over_its_unmasked_sequences(mask, dtype):
    layer, oracle = layer_and_oracle(dtype)
    tolerance = 2e-5 if dtype == "float32" else 1e-11
    # A batch without a mask first: statistics of two sequences alone are ill-conditioned.
    train(layer, oracle, draw(4).astype(dtype))
    for _ in range(2):
        x = draw(4).astype(dtype)
        y, expected = train(layer, oracle, x, mask)
        unmasked = np.ones((5, 4), bool) if mask is None else mask
        np.testing.assert_allclose(y[unmasked], expected[unmasked], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(layer.moving_mean, oracle.moving_mean, atol=tolerance)
    np.testing.assert_allclose(layer.moving_variance, oracle.moving_variance, rtol=tolerance)
    np.testing.assert_array_equal(layer.update_count, oracle.update_count)


@pytest.mark.parametrize("time", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("masked", [False, True])
def test_training_equals_the_oracle_at_every_length(time, masked):
    layer, oracle = layer_and_oracle()
    for _ in range(3):
        x, mask = draw(time), RNG.random((5, time)) > 0.4 if masked else None
        y, expected = train(layer, oracle, x, mask)
        unmasked = np.ones((5, time), bool) if mask is None else mask
        np.testing.assert_allclose(y[unmasked], expected[unmasked], rtol=0, atol=1e-11)
    assert_same_state(layer, oracle)


def test_the_last_row_is_updated_once_a_batch_with_the_mean_of_the_later_timesteps():
    layer = TimestepBatchNormalization(2, momentum=None, dtype="float64")
    x = draw(5)
    layer(x, training=True)
    np.testing.assert_allclose(layer.moving_mean[1], x[:, 1:].mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(
        layer.moving_variance[1], x[:, 1:].var(axis=0).mean(axis=0), rtol=1e-12
    )
    np.testing.assert_array_equal(layer.update_count, [1, 1])


def test_a_late_timestep_with_one_unmasked_sequence_does_not_update_the_last_row():
    layer, oracle = layer_and_oracle(max_timesteps=2)
    mask = np.ones((5, 4), bool)
    mask[1:, 2] = False
    y, expected = train(layer, oracle, draw(4), mask)
    np.testing.assert_allclose(y[mask], expected[mask], rtol=0, atol=1e-12)
    assert_same_state(layer, oracle)


def test_a_timestep_with_one_unmasked_sequence_uses_the_moving_statistics_unchanged():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(4))
    before = state(layer)
    x, mask = draw(4), np.zeros((5, 4), bool)
    mask[2] = True
    y = layer(x, training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(y[2], layer(x, training=False)[2], rtol=0, atol=1e-12)
    for weight, value in zip(layer.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_a_timestep_with_one_unmasked_sequence_uses_a_row_that_training_updated():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(2))
    x, mask = draw(4), np.ones((5, 4), bool)
    mask[1:, 3] = False
    y, expected = train(layer, oracle, x, mask)
    np.testing.assert_allclose(y[mask], expected[mask], rtol=0, atol=1e-12)
    assert_same_state(layer, oracle)


def test_batch_of_one_sequence_updates_nothing():
    layer, _ = layer_and_oracle()
    x = draw(4, batch=1)
    y = layer(x, training=True)
    np.testing.assert_array_equal(layer.update_count, [0, 0, 0, 0])
    np.testing.assert_allclose(y, layer(x, training=False), rtol=0, atol=1e-12)


@every_implementation
def test_nan_in_a_batch_of_one_sequence_does_not_reach_the_moving_statistics():
    layer, _ = layer_and_oracle()
    before = state(layer)
    layer(np.full((1, 4, WIDTH), np.nan), training=True)
    for weight, value in zip(layer.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_fully_masked_batch_updates_nothing():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(4))
    before = state(layer)
    layer(draw(4), training=True, mask=tf.zeros((5, 4), bool))
    for weight, value in zip(layer.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


def test_frozen_layer_normalizes_as_in_inference_and_updates_nothing():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(4))
    layer.trainable = False
    before, x = state(layer), draw(4)
    np.testing.assert_array_equal(layer(x, training=True), layer(x, training=False))
    for weight, value in zip(layer.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_gradients_are_exact(mask):
    layer, _ = layer_and_oracle()
    x, gamma, beta = draw(4), layer.gamma.numpy(), layer.beta.numpy()
    unmasked = np.ones((5, 4), bool) if mask is None else mask
    weights = RNG.normal(size=x.shape) * unmasked[..., None]

    def loss(x, gamma, beta):
        fresh = oracles.TimestepBatchNorm(STEPS, WIDTH, gamma, beta)
        y = [fresh.step(x[:, t], t, unmasked[:, t], training=True) for t in range(4)]
        return (weights * np.stack(y, axis=1)).sum()

    actual = layer_gradients(
        layer,
        x,
        lambda y: keras.ops.sum(weights * y),
        training=True,
        mask=None if mask is None else tf.constant(mask),
    )
    expected = [
        oracles.gradient(lambda v: loss(v, gamma, beta), x),
        oracles.gradient(lambda v: loss(x, v, beta), gamma),
        oracles.gradient(lambda v: loss(x, gamma, v), beta),
    ]
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-11)


def test_nan_in_masked_positions_reaches_neither_gradients_nor_statistics():
    mask = MASKS["broken"]
    x, weights = draw(4), RNG.normal(size=(5, 4, WIDTH))
    results = []
    for values in (x, np.where(mask[..., None], x, np.nan)):
        layer = TimestepBatchNormalization(STEPS, dtype="float64")
        gradients = layer_gradients(
            layer,
            values,
            lambda y: keras.ops.sum(tf.boolean_mask(weights * y, mask)),
            training=True,
            mask=tf.constant(mask),
        )
        results.append([gradients[0][mask], *gradients[1:], *state(layer)])
    for dirty, clean in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(dirty, clean, rtol=0, atol=1e-13)


# Inference --------------------------------------------------------------------------------------


def test_inference_before_training_uses_the_initial_statistics():
    layer, oracle = layer_and_oracle()
    x = draw(6)
    expected = oracles.timestep_batch_norm(oracle, x)
    np.testing.assert_allclose(layer(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("trained", [1, 2, 4, 6])
def test_inference_uses_the_last_row_that_training_updated(trained):
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(trained))
    x = draw(7)
    expected = oracles.timestep_batch_norm(oracle, x)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-11, atol=1e-11)


def test_inference_never_uses_a_row_that_training_skipped():
    layer, oracle = layer_and_oracle(max_timesteps=6)
    mask = np.zeros((5, 6), bool)
    mask[:, [1, 4]] = True  # training updates rows 1 and 4; timesteps 0, 2 and 3 use row 1
    train(layer, oracle, draw(6), mask)
    x = draw(6)
    expected = oracles.timestep_batch_norm(oracle, x)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-11, atol=1e-11)


def test_inference_updates_nothing():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(4))
    before = state(layer)
    layer(draw(4), training=False)
    for weight, value in zip(layer.non_trainable_weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)


# Single timesteps -------------------------------------------------------------------------------


@pytest.mark.parametrize("tensor", [False, True], ids=["int", "tensor"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_single_timesteps_equal_the_whole_sequence(mask, tensor):
    sequence, oracle = layer_and_oracle()
    train(sequence, oracle, draw(4))  # updates every row
    single = TimestepBatchNormalization(STEPS, dtype="float64")
    single.build((None, None, WIDTH))
    single.set_weights(sequence.get_weights())
    unmasked = np.ones((5, 4), bool) if mask is None else mask
    for training in (True, False):
        x = draw(4)
        y = sequence(x, training=training, mask=tf.constant(unmasked))
        for t in range(4):
            step = tf.constant(t) if tensor else t
            y_t = single(x[:, t], training=training, mask=tf.constant(unmasked[:, t]), step=step)
            np.testing.assert_allclose(
                y_t[unmasked[:, t]], y[:, t][unmasked[:, t]], rtol=0, atol=1e-12
            )
    for ours, theirs in zip(state(single), state(sequence), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_call_with_a_step_builds_the_layer():
    layer = TimestepBatchNormalization(STEPS, dtype="float64")
    x = draw(1)[:, 0]
    y = layer(x, training=True, step=2)
    np.testing.assert_allclose(y, oracles.batch_norm_train(x, epsilon=1e-5)[0], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(layer.update_count, [0, 0, 1, 0])


def test_step_beyond_max_timesteps_uses_the_last_row():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(4))
    x = draw(1)[:, 0]
    np.testing.assert_array_equal(layer(x, step=9), layer(x, step=3))
    layer(x, training=True, step=9)
    np.testing.assert_array_equal(layer.update_count, [1, 1, 1, 2])


def test_step_may_be_a_tensor_in_a_graph():
    layer, oracle = layer_and_oracle()
    train(layer, oracle, draw(4))
    infer = tf.function(
        lambda x, step: layer(x, step=step),
        input_signature=[tf.TensorSpec((None, WIDTH), "float64"), tf.TensorSpec((), "int32")],
    )
    x = draw(4)
    expected = oracles.timestep_batch_norm(oracle, x)
    for t in range(4):
        np.testing.assert_allclose(infer(x[:, t], t), expected[:, t], rtol=0, atol=1e-11)


def test_training_in_a_graph_takes_a_step_for_each_sequence(implementation):
    """A cell in keras.layers.RNN calls its norms with a timestep for each sequence."""
    layer = TimestepBatchNormalization(4)
    layer.build((None, WIDTH))
    train = tf.function(
        lambda x, step: layer(x, training=True, step=step),
        input_signature=[tf.TensorSpec((None, WIDTH)), tf.TensorSpec((None,), "int32")],
    )
    x = draw(1)[:, 0].astype("float32")
    expected = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + layer.epsilon)
    np.testing.assert_allclose(train(x, np.ones(len(x), "int32")), expected, rtol=0, atol=1e-5)


# Graphs, numerics -------------------------------------------------------------------------------


@pytest.mark.parametrize("jit_compile", [False, True])
def test_batch_and_time_may_be_dynamic(jit_compile):
    layer, oracle = layer_and_oracle()
    step = tf.function(
        lambda x, mask: layer(x, training=True, mask=mask),
        input_signature=[
            tf.TensorSpec((None, None, WIDTH), "float64"),
            tf.TensorSpec((None, None), "bool"),
        ],
        jit_compile=jit_compile,
    )
    for batch, time in [(5, 3), (4, 6)]:
        x, mask = draw(time, batch), RNG.random((batch, time)) > 0.2
        expected = oracles.timestep_batch_norm(oracle, x, mask, training=True)
        np.testing.assert_allclose(
            np.asarray(step(x, mask))[mask], expected[mask], rtol=0, atol=1e-11
        )
    assert_same_state(layer, oracle)


def test_mask_of_a_masking_layer_reaches_the_statistics():
    x = draw(4).astype("float32")
    x[:2, 2:] = 0
    norm = TimestepBatchNormalization(4)
    keras.Sequential([keras.layers.Masking(), norm])(x, training=True)
    np.testing.assert_allclose(norm.moving_mean[3], x[2:, 3].mean(axis=0), atol=1e-6)


@every_implementation
def test_float16_inputs_near_60000_do_not_overflow():
    x = np.clip(60000 + 1500 * RNG.normal(size=(64, 3, 2)), 0, 65500).astype("float16")
    y = TimestepBatchNormalization(3, dtype="mixed_float16")(x, training=True)
    oracle = oracles.TimestepBatchNorm(3, 2)
    expected = oracles.timestep_batch_norm(oracle, x.astype("float64"), training=True)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-2)


@every_implementation
def test_a_float32_mean_near_1e7_costs_no_digits():
    x = (1e7 + 10 * RNG.normal(size=(64, 3, 2))).astype("float32")
    y = TimestepBatchNormalization(3)(x, training=True)
    oracle = oracles.TimestepBatchNorm(3, 2)
    expected = oracles.timestep_batch_norm(oracle, x.astype("float64"), training=True)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_timesteps", [0, -2, 1.5])
def test_max_timesteps_below_1_or_fractional_is_refused(max_timesteps):
    assert_refused(
        lambda: TimestepBatchNormalization(max_timesteps), "max_timesteps", str(max_timesteps)
    )


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2, 5)], ids=str)
def test_sequence_of_wrong_rank_is_refused(shape):
    assert_refused(lambda: TimestepBatchNormalization(3)(np.ones(shape)), str(shape[-1]), "time")


def test_negative_step_is_refused():
    assert_refused(lambda: TimestepBatchNormalization(3)(draw(3)[:, 0], step=-1), "step", "-1")


def test_step_with_a_sequence_is_refused():
    assert_refused(lambda: TimestepBatchNormalization(3)(draw(3), step=0), "step")


def test_mask_of_wrong_rank_is_refused():
    layer = TimestepBatchNormalization(3)
    assert_refused(
        lambda: layer(draw(3), training=True, mask=tf.ones((5, 3, WIDTH), bool)),
        "mask",
        "(5, 3, 3)",
    )


def test_mask_of_a_whole_sequence_with_a_step_is_refused():
    layer = TimestepBatchNormalization(3)
    assert_refused(
        lambda: layer(draw(3)[:, 0], training=True, mask=tf.ones((5, 3), bool), step=0),
        "mask",
        "(5, 3)",
    )


def test_integer_input_is_refused():
    assert_refused(lambda: TimestepBatchNormalization(3)(np.ones((2, 3, 2), "int32")), "int32")


@pytest.mark.parametrize("momentum", [-0.1, 1.5])
def test_momentum_outside_0_to_1_is_refused(momentum):
    assert_refused(
        lambda: TimestepBatchNormalization(3, momentum=momentum), "momentum", str(momentum)
    )


def test_debias_with_a_momentum_of_1_is_refused():
    assert_refused(
        lambda: TimestepBatchNormalization(3, debias=True, momentum=1.0), "debias", "momentum"
    )
