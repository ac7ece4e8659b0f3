"""BatchNormalization against Ioffe and Szegedy's algorithms 1 and 2, and against Keras' layer.

test_batch_statistics.py tests how the moving statistics average over batches, and what this layer
and TimestepBatchNormalization have in common.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import BatchNormalization
from tests import oracles
from tests.check_layer import assert_refused, layer_gradients
from tests.keras_version import needs_renorm

RNG = np.random.default_rng(0)
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}
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


def assert_all_close(actual, expected, **tolerance):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, **tolerance)


# The paper --------------------------------------------------------------------------------------


@every_implementation
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((6, 3), -1), ((4, 3, 5), 0), ((4, 3, 2, 5), -1), ((4, 3, 2, 5), 1), ((4, 3, 2, 5), -2)],
    ids=str,
)
def test_outputs_and_statistics_equal_those_of_the_paper(shape, axis):
    for dtype, tolerance in TOLERANCE.items():
        x = draw(shape)
        layer, gamma, beta = layer_and_weights(x, dtype, axis=axis, momentum=0.0)
        mean, variance = RNG.normal(size=shape[axis]), RNG.uniform(0.5, 2, size=shape[axis])
        layer.moving_mean.assign(mean)
        layer.moving_variance.assign(variance)
        expected = oracles.batch_norm_inference(x, mean, variance, gamma, beta, axis)
        np.testing.assert_allclose(layer(x.astype(dtype)), expected, rtol=0, atol=tolerance)
        actual = layer(x.astype(dtype), training=True), layer.moving_mean, layer.moving_variance
        expected = oracles.batch_norm_train(x, gamma, beta, axis)
        assert_all_close(actual, expected, rtol=tolerance, atol=tolerance)


def random_mask(*shape):
    mask = RNG.random(shape) > 0.4
    mask[:2] = True  # every feature has unmasked values
    return mask


ONE_MASKED = np.arange(5)[:, None] // 2 != np.ones((5, 4))  # the second of three ghost batches
LAST_MASKED = np.array([[1, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]], bool)
ROW = np.array([[True, False, True, True]])
# Shape and axis of the inputs, a mask with its shape in the rank of the inputs, and a size of ghost
# batches. tests/ops/test_masks.py tests the shapes of masks.
TRAINING = {
    "vectors": ((5, 3), -1, None, None, None),
    "channels first": ((4, 2, 3), 1, None, None, None),
    "masked": ((3, 4, 2), -1, LAST_MASKED, (3, 4, 1), None),
    "masked, channels first": ((6, 3, 4), 1, random_mask(6, 4), (6, 1, 4), None),
    "masked, features are time": ((6, 3, 4), 1, random_mask(6, 3), (6, 3, 1), None),
    "broadcast mask": ((6, 4, 2, 3), -1, random_mask(1, 4, 1), (1, 4, 1, 1), None),
    "two ghosts": ((8, 4, 2), -1, None, None, 4),
    "three ghosts": ((10, 4, 2), -1, None, None, 4),
    "ghosts, channels first": ((5, 2, 4), 1, None, None, 2),
    "one ghost": ((3, 2), -1, None, None, 8),
    "ghosts of one row": ((4, 4, 2), -1, None, None, 1),
    "a masked ghost": ((5, 4, 2), -1, ONE_MASKED, (5, 4, 1), 2),
    "ghosts, broadcast mask": ((5, 4, 2), -1, ROW, (1, 4, 1), 2),
}


def oracle(x, gamma, beta, axis, mask, size):
    """Train on whole batches, or on ghost batches; a masked ghost batch does not count."""
    if size is None:
        return oracles.batch_norm_train(x, gamma, beta, axis, mask=mask)
    x, mask = (np.moveaxis(a, axis, -1) for a in (x, mask))
    y, *statistics = oracles.ghost_batch_norm_train(x, size, gamma, beta, mask=mask)
    return np.moveaxis(y, -1, axis), *statistics


@pytest.mark.parametrize(
    ("shape", "axis", "mask", "aligned", "size"), TRAINING.values(), ids=TRAINING
)
def test_training_ignores_masked_values(shape, axis, mask, aligned, size):
    """Outputs, statistics and gradients are those of the unmasked values, also in ghost batches."""
    x, full = draw(shape), np.ones(shape, bool)
    if mask is not None:
        full = np.broadcast_to(mask.reshape(aligned), shape)
    weights = np.where(full, RNG.normal(size=shape), 0.0)
    layer, *affine = layer_and_weights(x, axis=axis, momentum=0.5, virtual_batch_size=size)
    given = {} if mask is None else {"mask": tf.constant(mask.astype("int32"))}
    y, mean, variance = oracle(x, *affine, axis, full, size)
    filled = np.where(full, x, np.nan)
    np.testing.assert_allclose(layer(filled, training=True, **given)[full], y[full], atol=1e-12)
    assert_all_close(
        [layer.moving_mean, layer.moving_variance], [0.5 * mean, 0.5 + 0.5 * variance], atol=1e-12
    )
    actual = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y), training=True, **given)
    sources = [x, *affine]
    for k, source in enumerate(sources):

        def loss(v, k=k):
            y, *_ = oracle(*sources[:k], v, *sources[k + 1 :], axis, full, size)
            return np.where(weights == 0, 0, weights * y).sum()

        np.testing.assert_allclose(actual[k], oracles.gradient(loss, source), rtol=1e-9, atol=1e-12)


def test_gradients_at_inference_are_exact():
    x, weights = draw((4, 3)), RNG.normal(size=(4, 3))
    layer, gamma, _ = layer_and_weights(x)
    dx, d_gamma, d_beta = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y))
    r = 1 / np.sqrt(1 + 1e-3)
    expected = weights * gamma * r, (weights * x * r).sum(axis=0), weights.sum(axis=0)
    assert_all_close([dx, d_gamma, d_beta], expected, rtol=1e-12)


def test_without_gamma_and_beta_only_the_moving_statistics_are_weights():
    layer, x = BatchNormalization(center=False, scale=False, dtype="float64"), draw((6, 3))
    np.testing.assert_allclose(layer(x, training=True), oracles.batch_norm_train(x)[0], atol=1e-12)
    assert [weight.name for weight in layer.weights] == ["moving_mean", "moving_variance"]


def test_a_constant_feature_has_a_finite_gradient():
    x = np.full((4, 3), 7.0)
    weights = RNG.normal(size=x.shape)
    layer = BatchNormalization(dtype="float64")
    gradient, *_ = layer_gradients(layer, x, lambda y: keras.ops.sum(weights * y), training=True)
    centered = weights - weights.mean(axis=0)
    np.testing.assert_allclose(gradient, centered / np.sqrt(1e-3), rtol=1e-12)


def test_inference_ignores_the_virtual_batch_size():
    x = draw((5, 2))
    ghosts, whole = BatchNormalization(virtual_batch_size=2), BatchNormalization()
    np.testing.assert_array_equal(ghosts(x), whole(x))


# Keras' layer -----------------------------------------------------------------------------------


OF_KERAS = [
    *((given, "fused") for given in ({}, {"center": False}, {"scale": False})),
    ({"axis": 1, "momentum": 0.9, "epsilon": 1e-2}, "composed"),
    *(
        pytest.param({"renorm": True, **given}, "composed", marks=needs_renorm)
        for given in (
            {"momentum": 0.9, "renorm_momentum": 0.8},
            {"renorm_clipping": {"rmin": 0.9, "rmax": 1.1, "dmax": 0.1}},
            {"center": False, "scale": False},
        )
    ),
]


@pytest.mark.parametrize(
    ("kwargs", "implementation"), OF_KERAS, ids=str, indirect=["implementation"]
)
def test_training_with_the_configuration_of_the_keras_layer_equals_it(kwargs, implementation):
    theirs = keras.layers.BatchNormalization(**kwargs)
    ours = BatchNormalization.from_config(theirs.get_config())
    config = {**theirs.get_config(), "dtype": ours.get_config()["dtype"]}
    assert {name: ours.get_config()[name] for name in config} == config
    theirs.build((None, 3, 5))
    ours.build((None, 3, 5))
    assert [weight.name for weight in ours.weights] == [weight.name for weight in theirs.weights]
    theirs.set_weights([weight + RNG.uniform(size=weight.shape) for weight in theirs.weights])
    ours.set_weights(theirs.get_weights())
    for sign in (1.0, -1.0):  # renorm clips on both sides
        x, weights = sign * draw((2, 6, 3, 5), "float32")
        gradients = [
            layer_gradients(layer, x, lambda y, w=weights: keras.ops.sum(w * y), training=True)
            for layer in (ours, theirs)
        ]
        assert_all_close(*gradients, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours(x, training=True), theirs(x, training=True), atol=1e-5)
    assert_all_close(ours.get_weights(), theirs.get_weights(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-5, atol=1e-5)


# Special batches, and changes after build -------------------------------------------------------


def test_a_fully_masked_feature_keeps_its_moving_statistics():
    x = draw((4, 3, 2))  # the feature axis is time
    mask = np.ones((4, 3), bool)
    mask[:, 1] = False
    layer, _, _ = layer_and_weights(x, axis=1, momentum=0.5)
    layer.moving_mean.assign([7.0, 8.0, 9.0])
    y = layer(x, training=True, mask=tf.constant(mask))
    assert (layer.moving_mean[1], layer.moving_variance[1]) == (8.0, 1.0)
    assert np.isfinite(y).all()


@pytest.mark.parametrize("kwargs", [{}, {"virtual_batch_size": 4}], ids=str)
def test_an_empty_batch_updates_nothing(kwargs, implementation):
    layer, _, _ = layer_and_weights(draw((4, 3)), **kwargs)
    before = layer.get_weights()
    spec = [tf.TensorSpec((None, 3)), tf.TensorSpec((None,), "bool")]
    graph = tf.function(lambda x, m: layer(x, mask=m, training=True), input_signature=spec)
    assert layer(np.zeros((0, 3)), training=True).shape == (0, 3)
    assert graph(np.zeros((0, 3), "float32"), np.zeros(0, bool)).shape == (0, 3)
    assert_all_close(layer.get_weights(), before, rtol=0)


@pytest.mark.parametrize(
    ("kwargs", "momentum", "mean"),
    [({}, "momentum", "moving_mean"), ({"renorm": True}, "renorm_momentum", "renorm_mean")],
)
def test_a_momentum_may_be_changed_after_build(kwargs, momentum, mean):
    layer, x = BatchNormalization(**kwargs), draw((100, 3), "float32")
    layer.build((None, 3))
    setattr(layer, momentum, 0.0)
    layer(x, training=True)
    np.testing.assert_allclose(getattr(layer, mean), x.mean(axis=0), rtol=1e-5)


def test_momentum_none_is_refused_if_the_layer_was_built_without_a_count_of_updates():
    layer = BatchNormalization(name="norm")
    layer.build((None, 3))
    layer.momentum = None
    message = "Layer 'norm' does not count its updates"
    assert_refused(lambda: layer(np.ones((2, 3), "float32"), training=True), message)


# Graphs -----------------------------------------------------------------------------------------


def test_the_batch_size_of_ghost_batches_may_be_dynamic():
    layer = BatchNormalization(virtual_batch_size=3)
    layer.build((None, 2))
    spec, options = [tf.TensorSpec((None, 2))], {"jit_compile": True, "autograph": False}
    train = tf.function(lambda x: layer(x, training=True), spec, **options)
    for batch in (3, 7):
        x = draw((batch, 2))
        expected, _, _ = oracles.ghost_batch_norm_train(x, 3)
        np.testing.assert_allclose(train(x.astype("float32")), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("implementation", "kwargs", "jit_compile"),
    [
        ("composed", {"momentum": None}, True),
        ("composed", {"renorm": True}, True),
        ("composed", {"debias": True}, False),
        ("fused", {"debias": True}, True),
    ],
    ids=str,
    indirect=["implementation"],
)
def test_training_in_a_graph_equals_eager_training(implementation, kwargs, jit_compile):
    x = draw((3, 4, 2), "float32")
    eager, graph = BatchNormalization(**kwargs), BatchNormalization(**kwargs)
    graph.build(x.shape)
    train = tf.function(lambda x: graph(x, training=True), jit_compile=jit_compile, autograph=False)
    for scale in (1.0, 2.0):
        y = train(tf.constant(scale * x))
        np.testing.assert_allclose(y, eager(scale * x, training=True), rtol=0, atol=1e-5)
    assert_all_close(graph.get_weights(), eager.get_weights(), rtol=1e-5, atol=1e-6)
