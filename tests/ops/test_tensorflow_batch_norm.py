"""Batch normalization with the fused kernel: gradients, against composed operations and NumPy.

The tests of the layers compare outputs and statistics of this kernel with the oracles.
"""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.moments import moments
from keras_norm.ops.normalize import normalize
from keras_norm.ops.tensorflow_batch_norm import normalize_batch, normalize_with_statistics
from tests import oracles

RNG = np.random.default_rng(0)
EPSILON = 1e-2
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def draw(shape, dtype="float32"):
    return RNG.normal(1.0, 2.0, size=shape).astype(dtype)


def composed(x, gamma, beta, feature_axes, fallback=None):
    """Normalize a batch in float64 with `moments` and `normalize`."""
    x, rank = tf.cast(x, "float64"), len(x.shape)
    m = moments(x, list(range(rank - feature_axes)), min_count=2, fallback=fallback)
    gamma, beta = (
        None if w is None else tf.reshape(w, [1] * (rank - 1) + [-1]) for w in (gamma, beta)
    )
    return normalize(m.centered, m.variance, EPSILON, gamma, beta)


def gradients(function, *arrays, dtype):
    arrays = [tf.constant(a, dtype) for a in arrays]
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        loss = function(*arrays)
    return tape.gradient(loss, arrays)


def assert_all_close(actual, expected, **tolerance):
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, **tolerance)


@pytest.mark.parametrize("feature_axes", [1, 2])
@pytest.mark.parametrize("affine", [(True, True), (False, True), (True, False), (False, False)])
def test_gradients_equal_those_of_the_composed_operations(affine, feature_axes):
    x, weights = draw((6, 4, 5)), draw((6, 4, 5))
    affine_weights = [draw(5) for present in affine if present]

    def loss(normalized):
        def function(x, *affine_weights):
            values = iter(affine_weights)
            gamma, beta = (next(values) if present else None for present in affine)
            return tf.reduce_sum(tf.cast(weights, x.dtype) * normalized(x, gamma, beta))

        return function

    fused = loss(lambda x, gamma, beta: normalize_batch(x, gamma, beta, EPSILON, feature_axes)[0])
    exact = loss(lambda x, gamma, beta: composed(x, gamma, beta, feature_axes))
    assert_all_close(
        gradients(fused, x, *affine_weights, dtype="float32"),
        gradients(exact, x, *affine_weights, dtype="float64"),
        **CLOSE,
    )


@pytest.mark.parametrize("feature_axes", [1, 2])
def test_second_derivatives_equal_those_of_the_composed_operations(feature_axes):
    x, gamma, u, weights = draw((4, 6, 4, 5))
    gamma = gamma[0, 0]

    def slope(function):
        def second(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x, tf.cast(gamma, x.dtype), None)
                loss = tf.reduce_sum(tf.cast(weights, x.dtype) * y * y)
            return tf.reduce_sum(tf.cast(u, x.dtype) * tape.gradient(loss, x))

        return second

    (actual,) = gradients(
        slope(lambda *args: normalize_batch(*args, EPSILON, feature_axes)[0]), x, dtype="float32"
    )
    (expected,) = gradients(slope(lambda *args: composed(*args, feature_axes)), x, dtype="float64")
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("batch", [1, 2, 6])
def test_fallback_statistics_replace_those_of_too_few_sequences(batch):
    x, gamma, beta, weights = draw((batch, 4, 5)), draw(5), draw(5), draw((batch, 4, 5))
    mean, variance = draw((4, 5)), draw((4, 5)) ** 2

    def loss(normalized):
        return lambda x, *affine: tf.reduce_sum(tf.cast(weights, x.dtype) * normalized(x, *affine))

    def fused(x, *affine):
        options = {"min_count": 2, "fallback": (mean, variance)}
        return normalize_batch(x, *affine, EPSILON, 2, **options)[0]

    def exact(x, gamma, beta):
        fallback = (tf.cast(mean, x.dtype), tf.cast(variance, x.dtype))
        return composed(x, gamma, beta, 2, fallback)

    tensors = [tf.constant(a) for a in (x, gamma, beta)]
    np.testing.assert_allclose(
        fused(*tensors), exact(*(tf.cast(t, "float64") for t in tensors)), rtol=1e-4, atol=1e-4
    )
    found = gradients(loss(fused), x, gamma, beta, dtype="float32")
    expected = gradients(loss(exact), x, gamma, beta, dtype="float64")
    assert_all_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("feature_axes", [1, 2])
def test_sizes_may_be_dynamic(feature_axes):
    run = tf.function(
        lambda x: normalize_batch(x, None, None, EPSILON, feature_axes),
        input_signature=[tf.TensorSpec((None, None, 5))],
        autograph=False,
    )
    for shape in [(6, 4, 5), (3, 7, 5), (0, 4, 5)]:
        x = draw(shape)
        y, mean, _, count = run(x)
        assert y.shape == shape
        assert mean.shape == ((1, 1, 5) if feature_axes == 1 else (1, shape[1], 5))
        if shape[0]:
            np.testing.assert_allclose(y, composed(x, None, None, feature_axes), **CLOSE)
        assert float(tf.squeeze(count)) == np.prod(shape[:-feature_axes])


@pytest.mark.parametrize("value", [0.0, 0.1, 12345.678, 1e7])
def test_a_constant_feature_gives_beta(value):
    y, *_ = normalize_batch(np.full((64, 5), value, "float32"), None, tf.ones(5), 1e-5)
    np.testing.assert_allclose(y, np.ones((64, 5)), rtol=1e-6)


def test_gradients_with_given_statistics_are_exact():
    x, weights = draw((2, 6, 4, 5))
    mean, variance, gamma, beta = draw((4, 5))
    variance = variance**2

    def loss(x, gamma, beta):
        y = oracles.batch_norm_inference(x, mean, variance, gamma, beta, epsilon=EPSILON)
        return (weights * y).sum()

    def fused(x, *affine):
        y = normalize_with_statistics(x, mean, variance, *affine, EPSILON)
        return tf.reduce_sum(weights * y)

    actual = gradients(fused, x, gamma, beta, dtype="float32")
    expected = [
        oracles.gradient(lambda v: loss(v, gamma, beta), x),
        oracles.gradient(lambda v: loss(x, v, beta), gamma),
        oracles.gradient(lambda v: loss(x, gamma, v), beta),
    ]
    assert_all_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_given_statistics_keep_the_digits_of_a_large_mean():
    mean = np.full(5, 1e7, "float32")
    x = (mean + np.round(10 * RNG.normal(size=(64, 5)))).astype("float32")
    y = normalize_with_statistics(x, mean, np.full(5, 100, "float32"), None, None, 0.0)
    np.testing.assert_allclose(y, (x.astype("float64") - mean) / 10, rtol=1e-6)
