"""BatchNormalization against Ioffe and Szegedy's algorithms 1 and 2, and against Keras' layer.

test_batch_statistics.py tests how the moving statistics average over batches.
"""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization, TimestepBatchNormalization
from tests import oracles
from tests.check_layer import assert_refused, check_layer, layer_gradients
from tests.keras_version import needs_renorm

RNG = np.random.default_rng(0)
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}
SHAPES_AND_AXES = [
    ((6, 3), -1),
    ((4, 3, 5), -1),
    ((4, 3, 5), 1),
    ((4, 3, 5), 0),
    ((4, 3, 2, 5), -1),
    ((4, 3, 2, 5), 1),
    ((4, 3, 2, 5), -2),
]
every_implementation = pytest.mark.usefixtures("implementation")


def draw(shape, dtype="float64"):
    return RNG.normal(1.0, 2.0, size=shape).astype(dtype)


def layer_and_weights(x, dtype="float64", **kwargs):
    """Build a layer with random gamma and beta; return the layer, gamma and beta."""
    layer = BatchNormalization(dtype=dtype, **kwargs)
    layer.build(x.shape)
    layer.gamma.assign(RNG.normal(size=layer.gamma.shape))
    layer.beta.assign(RNG.normal(size=layer.beta.shape))
    return layer, layer.gamma.numpy(), layer.beta.numpy()


def state(layer):
    return [weight.numpy() for weight in layer.non_trainable_weights]


def assert_state_equal(layer, expected):
    for weight, value in zip(layer.non_trainable_weights, expected, strict=True):
        np.testing.assert_array_equal(weight, value, err_msg=weight.path)


def assert_all_close(actual, expected, **tolerance):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, **tolerance)


# The contract -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("implementation", "kwargs", "non_trainable"),
    [
        ("fused", {}, 2),
        ("composed", {"momentum": None, "unbiased_variance": True, "virtual_batch_size": 2}, 3),
        ("composed", {"renorm": True, "renorm_clipping": {"rmax": 3.0}, "synchronized": True}, 5),
    ],
    ids=["default", "cumulative ghosts", "renorm"],
    indirect=["implementation"],
)
def test_layer_meets_the_contract_of_check_layer(implementation, kwargs, non_trainable):
    check_layer(
        BatchNormalization,
        kwargs,
        (4, 3, 5),
        expected_trainable=2,
        expected_non_trainable=non_trainable,
    )


def test_without_gamma_and_beta_only_the_moving_statistics_are_weights():
    layer = BatchNormalization(center=False, scale=False, dtype="float64")
    x = draw((6, 3))
    np.testing.assert_allclose(layer(x, training=True), oracles.batch_norm_train(x)[0], atol=1e-12)
    assert [weight.name for weight in layer.weights] == ["moving_mean", "moving_variance"]


def test_weights_are_float32_under_mixed_precision():
    layer = BatchNormalization(dtype="mixed_float16")
    layer(draw((4, 3), "float16"), training=True)
    assert {weight.dtype for weight in layer.weights} == {"float32"}


def test_initializers_regularizers_and_constraints_reach_the_weights():
    constant = keras.initializers.Constant
    layer = BatchNormalization(
        beta_initializer=constant(2),
        gamma_initializer=constant(3),
        moving_mean_initializer=constant(4),
        moving_variance_initializer=constant(5),
        beta_regularizer=keras.regularizers.L1(0.5),
        gamma_regularizer=keras.regularizers.L2(0.1),
        beta_constraint=keras.constraints.NonNeg(),
        gamma_constraint=keras.constraints.UnitNorm(),
    )
    layer.build((None, 5))
    np.testing.assert_allclose(sum(layer.losses), 0.5 * 5 * 2 + 0.1 * 5 * 9, rtol=1e-6)
    assert isinstance(layer.beta.constraint, keras.constraints.NonNeg)
    assert isinstance(layer.gamma.constraint, keras.constraints.UnitNorm)
    assert_state_equal(layer, [np.full(5, 4.0), np.full(5, 5.0)])


# Outputs and gradients --------------------------------------------------------------------------


@every_implementation
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES, ids=str)
def test_training_output_and_statistics_equal_those_of_the_paper(shape, axis, dtype):
    x = draw(shape)
    layer, gamma, beta = layer_and_weights(x, dtype, axis=axis, momentum=0.0)
    y = layer(x.astype(dtype), training=True)
    expected = oracles.batch_norm_train(x, gamma, beta, axis)
    assert_all_close(
        [y, layer.moving_mean, layer.moving_variance],
        expected,
        rtol=TOLERANCE[dtype],
        atol=TOLERANCE[dtype],
    )


@every_implementation
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES_AND_AXES, ids=str)
def test_inference_output_equals_that_of_the_paper(shape, axis, dtype):
    x = draw(shape)
    layer, gamma, beta = layer_and_weights(x, dtype, axis=axis)
    mean, variance = RNG.normal(size=shape[axis]), RNG.uniform(0.5, 2, size=shape[axis])
    layer.moving_mean.assign(mean)
    layer.moving_variance.assign(variance)
    expected = oracles.batch_norm_inference(x, mean, variance, gamma, beta, axis)
    np.testing.assert_allclose(layer(x.astype(dtype)), expected, rtol=0, atol=TOLERANCE[dtype])


def test_inference_changes_no_statistic():
    layer, _, _ = layer_and_weights(draw((4, 3)))
    before = state(layer)
    layer(draw((4, 3)), training=False)
    assert_state_equal(layer, before)


def exact_gradients(function, x, gamma, beta, weights):
    """Differentiate (weights * function(x, gamma, beta)).sum() over the nonzero weights."""

    def loss(x, gamma, beta):
        return np.where(weights == 0, 0, weights * function(x, gamma, beta)).sum()

    return [
        oracles.gradient(lambda v: loss(v, gamma, beta), x),
        oracles.gradient(lambda v: loss(x, v, beta), gamma),
        oracles.gradient(lambda v: loss(x, gamma, v), beta),
    ]


@pytest.mark.parametrize(("shape", "axis"), [((5, 3), -1), ((4, 2, 3), 1)], ids=str)
def test_training_gradients_are_exact(shape, axis):
    x, weights = draw(shape), RNG.normal(size=shape)
    layer, gamma, beta = layer_and_weights(x, axis=axis)
    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y), training=True)
    expected = exact_gradients(
        lambda *args: oracles.batch_norm_train(*args, axis)[0], x, gamma, beta, weights
    )
    assert_all_close(actual, expected, rtol=0, atol=1e-12)


def test_inference_gradients_are_exact():
    x, weights = RNG.normal(size=(2, 4, 3))
    layer, gamma, beta = layer_and_weights(x)
    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y), training=False)
    expected = exact_gradients(
        lambda x, gamma, beta: oracles.batch_norm_inference(
            x, np.zeros(3), np.ones(3), gamma, beta
        ),
        x,
        gamma,
        beta,
        weights,
    )
    assert_all_close(actual, expected, rtol=0, atol=1e-12)


def test_masked_training_gradients_are_exact():
    x, mask = draw((3, 4, 2)), np.array([[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], bool)
    weights = RNG.normal(size=x.shape) * mask[..., None]
    layer, gamma, beta = layer_and_weights(x)
    actual = layer_gradients(
        layer, x, lambda y: keras.ops.sum(weights * y), training=True, mask=tf.constant(mask)
    )
    expected = exact_gradients(
        lambda *args: oracles.batch_norm_train(*args, mask=mask)[0], x, gamma, beta, weights
    )
    assert_all_close(actual, expected, rtol=0, atol=1e-12)


def test_gradients_through_ghost_batches_are_exact():
    x, weights = draw((5, 2)), RNG.normal(size=(5, 2))
    layer, gamma, beta = layer_and_weights(x, virtual_batch_size=2)
    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y), training=True)
    expected = exact_gradients(
        lambda x, gamma, beta: oracles.ghost_batch_norm_train(x, 2, gamma, beta)[0],
        x,
        gamma,
        beta,
        weights,
    )
    assert_all_close(actual, expected, rtol=1e-9, atol=1e-12)


def test_constant_feature_has_a_finite_gradient():
    x = np.full((4, 3), 7.0)
    weights = RNG.normal(size=x.shape)
    layer = BatchNormalization(dtype="float64")
    gradient, *_ = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y), training=True)
    centered = weights - weights.mean(axis=0)
    np.testing.assert_allclose(gradient, centered / np.sqrt(1e-3), rtol=1e-12)


# Numerics ---------------------------------------------------------------------------------------


@every_implementation
@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_float16_inputs_near_60000_do_not_overflow(policy):
    x = np.clip(60000 + 1500 * RNG.normal(size=(64, 4)), 0, 65500).astype("float16")
    layer = BatchNormalization(momentum=0.0, dtype=policy)
    expected, _, _ = oracles.batch_norm_train(x.astype("float64"))
    np.testing.assert_allclose(layer(x, training=True), expected, rtol=0, atol=1e-2)
    if policy == "mixed_float16":  # under "float16" the variance overflows in the moving statistics
        np.testing.assert_allclose(layer(x, training=False), expected, rtol=0, atol=1e-2)


@every_implementation
@pytest.mark.parametrize("masked", [False, True])
def test_a_float32_mean_near_1e7_costs_no_digits(masked):
    x = (1e7 + 10 * RNG.normal(size=(32, 5, 3))).astype("float32")
    mask = RNG.random(x.shape[:2]) > 0.3 if masked else np.ones(x.shape[:2], bool)
    expected, mean, variance = oracles.batch_norm_train(x.astype("float64"), mask=mask)
    layer = BatchNormalization(momentum=0.0)
    y = layer(x, training=True, mask=tf.constant(mask) if masked else None)
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=1e-7)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=1e-4)


# Keras' layer -----------------------------------------------------------------------------------


@every_implementation
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"axis": 1, "momentum": 0.9, "epsilon": 1e-2},
        {"center": False},
        {"scale": False},
        *(
            pytest.param({"renorm": True, **kwargs}, marks=needs_renorm)
            for kwargs in (
                {"momentum": 0.9, "renorm_momentum": 0.8},
                {"renorm_clipping": {"rmin": 0.9, "rmax": 1.1, "dmax": 0.1}},
                {"center": False, "scale": False},
            )
        ),
    ],
    ids=str,
)
def test_training_equals_the_keras_layer(kwargs):
    theirs, ours = keras.layers.BatchNormalization(**kwargs), BatchNormalization(**kwargs)
    theirs.build((None, 3, 5))
    ours.build((None, 3, 5))
    theirs.set_weights([weight + RNG.uniform(size=weight.shape) for weight in theirs.weights])
    ours.set_weights(theirs.get_weights())
    for _ in range(2):
        x, weights = draw((2, 6, 3, 5), "float32")
        gradients = [
            layer_gradients(layer, x, lambda y, w=weights: keras.ops.sum(w * y), training=True)
            for layer in (ours, theirs)
        ]
        assert_all_close(*gradients, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours(x, training=True), theirs(x, training=True), atol=1e-5)
    assert_all_close(ours.get_weights(), theirs.get_weights(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


@needs_renorm
def test_loads_the_configuration_of_the_keras_layer():
    theirs = keras.layers.BatchNormalization(axis=1, renorm=True, renorm_clipping={"dmax": 2.0})
    ours = BatchNormalization.from_config(theirs.get_config())
    config = ours.get_config()
    assert {key: config[key] for key in theirs.get_config() if key != "dtype"} == {
        key: value for key, value in theirs.get_config().items() if key != "dtype"
    }


@needs_renorm
def test_renorm_averages_have_the_names_of_the_keras_layer():
    theirs, ours = keras.layers.BatchNormalization(renorm=True), BatchNormalization(renorm=True)
    x = draw((6, 3), "float32")
    ours(x, training=True)
    theirs(x, training=True)
    for name in ("moving_stddev", "renorm_mean", "renorm_stddev"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-5)


@pytest.mark.parametrize("mask_shape", [(6, 4), (1, 4), (6, 1)], ids=str)
def test_masked_training_equals_the_keras_layer(mask_shape):
    theirs, ours = keras.layers.BatchNormalization(), BatchNormalization()
    x, mask = draw((6, 4, 3), "float32"), RNG.random(mask_shape) > 0.3
    mask[0, 0] = True
    mask = tf.constant(mask)
    np.testing.assert_allclose(
        ours(x, training=True, mask=mask), theirs(x, training=True, mask=mask), atol=1e-5
    )
    assert_all_close(ours.get_weights(), theirs.get_weights(), rtol=1e-5, atol=1e-6)


# Masks ------------------------------------------------------------------------------------------

MASKS = [  # input shape, axis, mask shape, the mask's shape when aligned with the input
    ((6, 3), -1, (6,), (6, 1)),
    ((6, 4, 3), -1, (6, 4), (6, 4, 1)),
    ((6, 3, 4), 1, (6, 4), (6, 1, 4)),  # channels first
    ((6, 3, 4), 1, (6, 3), (6, 3, 1)),  # only the leading dimensions fit: the feature axis is time
    ((6, 3, 3), 1, (6, 3), (6, 1, 3)),  # both fit: channels first
    ((6, 4, 2, 3), -1, (6, 4), (6, 4, 1, 1)),
    ((6, 4, 2, 3), -1, (6, 4, 2), (6, 4, 2, 1)),
    ((6, 3, 4, 2), 1, (6, 4), (6, 1, 4, 1)),
    ((6, 3, 4, 2), 1, (6, 4, 2), (6, 1, 4, 2)),
    ((6, 4, 2, 3), 2, (6, 4), (6, 4, 1, 1)),
    ((6, 4, 2, 3), -1, (1, 4, 1), (1, 4, 1, 1)),  # broadcasts
    ((6, 4, 3), -1, (6, 1), (6, 1, 1)),
    ((6, 3, 4), 1, (1, 4), (1, 1, 4)),
]


@pytest.mark.parametrize(("shape", "axis", "mask_shape", "aligned"), MASKS, ids=str)
def test_mask_reaches_the_statistics(shape, axis, mask_shape, aligned):
    x, mask = draw(shape), RNG.random(mask_shape) > 0.4
    mask[:2] = True  # every feature has unmasked values
    full = np.broadcast_to(mask.reshape(aligned), shape)
    layer, gamma, beta = layer_and_weights(x, axis=axis, momentum=0.0)
    expected, mean, variance = oracles.batch_norm_train(x, gamma, beta, axis, mask=full)
    y = layer(np.where(full, x, np.nan), training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(np.asarray(y)[full], expected[full], rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=0, atol=1e-12)


def test_a_mask_with_dynamic_sizes_aligns_with_the_axes_other_than_the_feature_axis():
    x, mask = draw((4, 3, 5)), RNG.random((4, 5)) > 0.3
    layer = BatchNormalization(axis=1, momentum=0.0, dtype="float64")
    layer.build((None, 3, None))

    @tf.function(
        input_signature=[
            tf.TensorSpec((None, 3, None), "float64"),
            tf.TensorSpec((None, None), "bool"),
        ],
        autograph=False,
    )
    def train(x, mask):
        return layer(x, training=True, mask=mask)

    train(x, mask)
    unmasked = np.broadcast_to(mask[:, None], x.shape)
    expected = [x[:, c][unmasked[:, c]].mean() for c in range(3)]
    np.testing.assert_allclose(layer.moving_mean, expected, rtol=0, atol=1e-12)


def test_masks_of_integers_are_read_as_booleans():
    x, mask = draw((4, 3, 2)), RNG.integers(0, 2, size=(4, 3))
    layer = BatchNormalization(momentum=0.0, dtype="float64")
    layer(x, training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(layer.moving_mean, oracles.batch_statistics(x, mask=mask)[0])


def test_mask_of_a_masking_layer_reaches_the_statistics():
    x = draw((6, 4, 3), "float32")
    x[:3, 2:] = 0
    norm = BatchNormalization(momentum=0.0)
    keras.Sequential([keras.layers.Masking(), norm])(x, training=True)
    mean, _ = oracles.batch_statistics(x.astype("float64"), mask=(x != 0).any(axis=-1))
    np.testing.assert_allclose(norm.moving_mean, mean, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 4), (6, 1)], ids=["one row", "one timestep"])
@pytest.mark.parametrize(
    "make", [BatchNormalization, lambda **o: TimestepBatchNormalization(4, debias=False, **o)]
)
def test_a_mask_with_dynamic_sizes_broadcasts(make, shape):
    layer, x = make(momentum=0.0), RNG.normal(5.0, size=(6, 4, 3)).astype("float32")
    spec = [tf.TensorSpec((None, None, 3)), tf.TensorSpec((None, None), "bool")]
    graph = tf.function(lambda x, m: layer(x, mask=m, training=True), spec, autograph=False)
    graph(x, np.ones(shape, bool))
    axes = (0, 1) if layer.moving_mean.ndim == 1 else 0
    np.testing.assert_allclose(layer.moving_mean, x.mean(axis=axes), rtol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, x.var(axis=axes), rtol=1e-5)


def test_momentum_may_be_changed_after_build():
    layer, x = BatchNormalization(), RNG.normal(5.0, size=(100, 3)).astype("float32")
    layer.build((None, 3))
    layer.momentum = 0.0
    layer(x, training=True)
    np.testing.assert_allclose(layer.moving_mean, x.mean(axis=0), rtol=1e-5)


def test_renorm_momentum_may_be_changed_after_build():
    layer = BatchNormalization(renorm=True)
    x = RNG.normal(5.0, size=(100, 3)).astype("float32")
    layer.build((None, 3))
    layer.renorm_momentum = 0.0
    layer(x, training=True)
    np.testing.assert_allclose(layer.renorm_mean, x.mean(axis=0), rtol=1e-5)


def test_momentum_none_is_refused_if_the_layer_was_built_without_a_count_of_updates():
    layer = BatchNormalization(name="norm")
    layer.build((None, 3))
    layer.momentum = None
    with pytest.raises(ValueError, match="Layer 'norm' does not count its updates"):
        layer(np.ones((2, 3), "float32"), training=True)


def test_batch_and_time_of_a_mask_may_be_dynamic():
    layer = BatchNormalization(momentum=0.0)
    layer.build((None, None, 3))
    train = tf.function(
        lambda x, mask: layer(x, training=True, mask=mask),
        input_signature=[tf.TensorSpec((None, None, 3)), tf.TensorSpec((None, None), tf.bool)],
    )
    for batch, time in [(4, 5), (2, 7)]:
        x, mask = draw((batch, time, 3)), RNG.random((batch, time)) > 0.3
        expected, mean, _ = oracles.batch_norm_train(x, mask=mask)
        np.testing.assert_allclose(train(x.astype("float32"), mask), expected, atol=1e-5)
        np.testing.assert_allclose(layer.moving_mean, mean, atol=1e-6)


def test_nan_in_masked_positions_does_not_reach_the_gradients():
    x, mask = draw((3, 4, 2)), np.array([[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], bool)
    weights = RNG.normal(size=x.shape)

    def gradients(x):
        layer, _, _ = layer_and_weights(x)
        layer.gamma.assign([1.0, 2.0])

        def loss(y):
            return keras.ops.sum(tf.boolean_mask(weights * y, mask))

        return layer_gradients(layer, x, loss, training=True, mask=tf.constant(mask))

    clean, dirty = gradients(x), gradients(np.where(mask[..., None], x, np.nan))
    np.testing.assert_allclose(dirty[0][mask], clean[0][mask], rtol=0, atol=1e-14)
    assert_all_close(dirty[1:], clean[1:], rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"momentum": None},
        {"debias": True},
        {"virtual_batch_size": 2},
        {"renorm": True},
        {"unbiased_variance": True},
        {"synchronized": True},
    ],
    ids=str,
)
def test_fully_masked_batch_updates_nothing_and_is_normalized_as_in_inference(kwargs):
    x = draw((5, 4, 3))
    layer, _, _ = layer_and_weights(x, **kwargs)
    layer(x, training=True)
    before = state(layer)
    y = layer(x, training=True, mask=tf.zeros((5, 4), bool))
    assert_state_equal(layer, before)
    np.testing.assert_allclose(y, layer(x, training=False), rtol=0, atol=1e-12)


def test_fully_masked_feature_keeps_its_moving_statistics():
    x = draw((4, 3, 2))  # the feature axis is time
    mask = np.ones((4, 3), bool)
    mask[:, 1] = False
    layer, _, _ = layer_and_weights(x, axis=1, momentum=0.5)
    layer.moving_mean.assign([7.0, 8.0, 9.0])
    y = layer(x, training=True, mask=tf.constant(mask))
    np.testing.assert_array_equal(layer.moving_mean[1], 8.0)
    np.testing.assert_array_equal(layer.moving_variance[1], 1.0)
    assert np.isfinite(y).all()


@every_implementation
@pytest.mark.parametrize("kwargs", [{}, {"virtual_batch_size": 4}], ids=str)
def test_empty_batch_updates_nothing(kwargs):
    layer, _, _ = layer_and_weights(draw((4, 3)), **kwargs)
    before = state(layer)
    assert layer(np.zeros((0, 3)), training=True).shape == (0, 3)
    assert_state_equal(layer, before)


@pytest.mark.parametrize("kwargs", [{}, {"virtual_batch_size": 4}], ids=str)
def test_empty_batch_updates_nothing_in_a_graph(kwargs):
    layer, _, _ = layer_and_weights(draw((4, 3)), **kwargs)
    before = state(layer)
    spec = [tf.TensorSpec((None, 3)), tf.TensorSpec((None,), "bool")]
    graph = tf.function(lambda x, m: layer(x, mask=m, training=True), input_signature=spec)
    assert graph(np.zeros((0, 3), "float32"), np.zeros(0, bool)).shape == (0, 3)
    assert_state_equal(layer, before)


# Ghost batches ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "size"), [(8, 4), (10, 4), (9, 4), (5, 2), (7, 7), (3, 8), (4, 1)]
)
def test_each_ghost_batch_is_normalized_with_its_own_statistics(batch, size):
    x = draw((batch, 3, 2))
    layer, gamma, beta = layer_and_weights(x, virtual_batch_size=size, momentum=0.5)
    expected, mean, variance = oracles.ghost_batch_norm_train(x, size, gamma, beta)
    np.testing.assert_allclose(layer(x, training=True), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_mean, 0.5 * mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, 0.5 + 0.5 * variance, rtol=0, atol=1e-12)


def test_ghost_batches_may_have_channels_first():
    x = draw((5, 3, 4))
    layer, gamma, beta = layer_and_weights(x, axis=1, virtual_batch_size=2)
    expected, _, _ = oracles.ghost_batch_norm_train(np.moveaxis(x, 1, -1), 2, gamma, beta)
    np.testing.assert_allclose(
        layer(x, training=True), np.moveaxis(expected, -1, 1), rtol=0, atol=1e-12
    )


def test_masked_positions_do_not_count_in_ghost_batches():
    x = draw((5, 4, 2))
    mask = RNG.random((5, 4)) > 0.3
    mask[2:4] = False  # the second ghost batch is fully masked: it does not count in the update
    layer, gamma, beta = layer_and_weights(x, virtual_batch_size=2, momentum=0.0)
    expected, mean, variance = oracles.ghost_batch_norm_train(x, 2, gamma, beta, mask=mask)
    y = layer(np.where(mask[..., None], x, np.nan), training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(np.asarray(y)[mask], expected[mask], rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=0, atol=1e-12)


def test_the_mask_of_ghost_batches_may_broadcast():
    x, mask = draw((5, 4, 2)), np.array([[True, False, True, True]])
    layer, gamma, beta = layer_and_weights(x, virtual_batch_size=2, momentum=0.0)
    full = np.broadcast_to(mask, (5, 4))
    expected, mean, variance = oracles.ghost_batch_norm_train(x, 2, gamma, beta, mask=full)
    y = layer(x, training=True, mask=tf.constant(mask))
    np.testing.assert_allclose(np.asarray(y)[full], expected[full], rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_mean, mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(layer.moving_variance, variance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_batch_size_of_ghost_batches_may_be_dynamic(jit_compile):
    layer = BatchNormalization(virtual_batch_size=3)
    layer.build((None, 2))
    train = tf.function(
        lambda x: layer(x, training=True),
        input_signature=[tf.TensorSpec((None, 2))],
        jit_compile=jit_compile,
    )
    for batch in (3, 5, 7):
        x = draw((batch, 2))
        expected, _, _ = oracles.ghost_batch_norm_train(x, 3)
        np.testing.assert_allclose(train(x.astype("float32")), expected, rtol=0, atol=1e-5)


def test_inference_ignores_the_virtual_batch_size():
    x = draw((5, 2))
    ghosts, whole = BatchNormalization(virtual_batch_size=2), BatchNormalization()
    np.testing.assert_array_equal(ghosts(x), whole(x))


# Training ---------------------------------------------------------------------------------------


@every_implementation
def test_frozen_layer_normalizes_as_in_inference_and_updates_nothing():
    x = draw((6, 3))
    layer, _, _ = layer_and_weights(x)
    layer(x, training=True)
    layer.trainable = False
    before = state(layer)
    y = layer(x, training=True)
    assert_state_equal(layer, before)
    np.testing.assert_array_equal(y, layer(x, training=False))
    assert layer.trainable_weights == []


@pytest.mark.parametrize(
    ("implementation", "kwargs", "jit_compile"),
    [
        *(("composed", kwargs, True) for kwargs in [{}, {"momentum": None}, {"renorm": True}]),
        ("composed", {"debias": True}, False),
        ("fused", {"debias": True}, True),
        ("fused", {"renorm": True}, False),
    ],
    ids=str,
    indirect=["implementation"],
)
def test_training_in_a_graph_equals_eager_training(implementation, kwargs, jit_compile):
    x = draw((3, 4, 2), "float32")
    eager, graph = BatchNormalization(**kwargs), BatchNormalization(**kwargs)
    graph.build(x.shape)
    compiled = tf.function(
        lambda x: graph(x, training=True), jit_compile=jit_compile, autograph=False
    )
    for scale in (1.0, 2.0):
        y = compiled(tf.constant(scale * x))
        np.testing.assert_allclose(y, eager(scale * x, training=True), rtol=0, atol=1e-5)
    assert_all_close(state(graph), state(eager), rtol=1e-5, atol=1e-6)


SYNCHRONIZED = """
import json
import numpy as np
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
import keras_norm

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
rng = np.random.default_rng(0)
x = rng.normal(1, 2, size=(2, 3, 4, 2)).astype("float32")
x[1] += 3
weights = rng.normal(size=x.shape).astype("float32")
masks = np.array([[[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], [[1, 0, 0, 0]] * 3], bool)

empty = masks * [[[1]], [[0]]]
for name, mask in [("unmasked", None), ("masked", masks), ("one empty replica", empty)]:
    with strategy.scope():
        layer = keras_norm.BatchNormalization(momentum=0.0, synchronized=True)
        layer.build((None, 4, 2))

    def spread(values):
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(values[context.replica_id_in_sync_group])
        )

    def run(x, weights, mask=None):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True, mask=mask)
            loss = tf.reduce_sum(weights * y)
        return y, tape.gradient(loss, x)

    unmasked = np.ones_like(masks) if mask is None else mask.astype(bool)
    masked_weights = weights * unmasked[..., None]
    args = [spread(x), spread(masked_weights), *([] if mask is None else [spread(unmasked)])]
    y, dx = (
        strategy.experimental_local_results(result)
        for result in tf.function(strategy.run)(run, args)
    )
    print(json.dumps({
        "name": name,
        "x": x.tolist(),
        "mask": unmasked.astype(int).tolist(),
        "weights": masked_weights.tolist(),
        "y": [replica.numpy().tolist() for replica in y],
        "dx": [replica.numpy().tolist() for replica in dx],
        "mean": layer.moving_mean.numpy().tolist(),
        "variance": layer.moving_variance.numpy().tolist(),
    }))
"""


def test_synchronized_statistics_and_gradients_are_those_of_the_global_batch():
    root = pathlib.Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", SYNCHRONIZED], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert [result["name"] for result in results] == ["unmasked", "masked", "one empty replica"]
    for result in results:
        x = np.concatenate(result["x"]).astype("float64")
        mask = np.concatenate(result["mask"]).astype(bool)
        expected, mean, variance = oracles.batch_norm_train(x, mask=mask)
        y = np.concatenate(result["y"])
        tolerance = {"rtol": 1e-5, "atol": 1e-5, "err_msg": result["name"]}
        np.testing.assert_allclose(y[mask], expected[mask], **tolerance)
        np.testing.assert_allclose(result["mean"], mean, **tolerance)
        np.testing.assert_allclose(result["variance"], variance, **tolerance)
        weights = np.concatenate(result["weights"])
        gradient = oracles.gradient(
            lambda x, w=weights, m=mask: (w * oracles.batch_norm_train(x, mask=m)[0]).sum(), x
        )
        np.testing.assert_allclose(np.concatenate(result["dx"]), gradient, **tolerance)


# Refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [3, -4])
def test_axis_out_of_range_is_refused(axis):
    assert_refused(lambda: BatchNormalization(axis=axis)(draw((2, 3, 4))), "axis", str(axis))


def test_axis_of_dynamic_size_is_refused():
    assert_refused(lambda: BatchNormalization(axis=1)(keras.Input((None, 3))), "axis", "None")


@pytest.mark.parametrize("axis", [[1], 1.5, None], ids=str)
def test_axis_of_another_type_is_refused(axis):
    assert_refused(lambda: BatchNormalization(axis=axis), "axis", str(axis))


def test_mask_of_wrong_rank_is_refused():
    layer = BatchNormalization()
    assert_refused(
        lambda: layer(draw((2, 3, 4, 5)), training=True, mask=tf.ones(2, bool)), "mask", "(2,)"
    )


def test_mask_that_does_not_fit_is_refused():
    layer = BatchNormalization()
    assert_refused(
        lambda: layer(draw((2, 3, 4)), training=True, mask=tf.ones((2, 5), bool)), "mask", "(2, 5)"
    )


def test_integer_input_is_refused():
    assert_refused(lambda: BatchNormalization()(np.ones((2, 3), "int32")), "int32")


@pytest.mark.parametrize("momentum", [-0.1, 1.5])
def test_momentum_outside_0_to_1_is_refused(momentum):
    assert_refused(lambda: BatchNormalization(momentum=momentum), "momentum", str(momentum))


def test_unknown_key_of_renorm_clipping_is_refused():
    assert_refused(
        lambda: BatchNormalization(renorm=True, renorm_clipping={"rmaxx": 1.0}),
        "renorm_clipping",
        "rmaxx",
        "rmax",
        "rmin",
        "dmax",
    )


def test_rmax_below_rmin_is_refused():
    assert_refused(
        lambda: BatchNormalization(renorm=True, renorm_clipping={"rmax": 0.5, "rmin": 0.75}),
        "rmax",
        "rmin",
        "0.5",
        "0.75",
    )


def test_negative_dmax_is_refused():
    assert_refused(
        lambda: BatchNormalization(renorm=True, renorm_clipping={"dmax": -1.5}), "dmax", "-1.5"
    )


@pytest.mark.parametrize("momentum", [-0.1, 1.5])
def test_renorm_momentum_outside_0_to_1_is_refused(momentum):
    assert_refused(
        lambda: BatchNormalization(renorm=True, renorm_momentum=momentum),
        "renorm_momentum",
        str(momentum),
    )


@pytest.mark.parametrize("kwargs", [{"momentum": None}, {"debias": True}], ids=str)
def test_renorm_with_a_cumulative_or_debiased_average_is_refused(kwargs):
    assert_refused(lambda: BatchNormalization(renorm=True, **kwargs), "renorm", *kwargs)


def test_debias_with_a_momentum_of_1_is_refused():
    assert_refused(lambda: BatchNormalization(debias=True, momentum=1.0), "debias", "momentum")


def test_negative_epsilon_is_refused():
    assert_refused(lambda: BatchNormalization(epsilon=-0.5), "epsilon", "-0.5")


@pytest.mark.parametrize("size", [0, -3, 2.5])
def test_virtual_batch_size_below_1_or_fractional_is_refused(size):
    assert_refused(
        lambda: BatchNormalization(virtual_batch_size=size), "virtual_batch_size", str(size)
    )


@pytest.mark.parametrize("other", ["synchronized", "renorm"])
def test_ghost_batches_with_renorm_or_synchronized_are_refused(other):
    assert_refused(
        lambda: BatchNormalization(virtual_batch_size=4, **{other: True}),
        "virtual_batch_size",
        other,
    )
