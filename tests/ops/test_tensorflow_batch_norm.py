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
every_axes = pytest.mark.parametrize("feature_axes", [1, 2])


def draw(shape, dtype="float32"):
    return RNG.normal(1.0, 2.0, size=shape).astype(dtype)


def fused(x, gamma, beta, feature_axes, fallback=None):
    options = {"min_count": 2, "fallback": fallback} if fallback else {}
    return normalize_batch(x, gamma, beta, EPSILON, feature_axes, **options)[0]


def composed(x, gamma, beta, feature_axes, fallback=None):
    """Normalize a batch in float64 with `moments` and `normalize`."""
    x, gamma, beta, *fallback = (
        None if a is None else tf.cast(a, "float64") for a in (x, gamma, beta, *(fallback or ()))
    )
    axes = list(range(len(x.shape) - feature_axes))
    m = moments(x, axes, min_count=2, fallback=fallback or None)
    gamma, beta = (None if w is None else w[None, None] for w in (gamma, beta))
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


@pytest.mark.parametrize(
    ("feature_axes", "affine", "batch"),
    [
        *((axes, names, 6) for axes in (1, 2) for names in (["gamma", "beta"], ["gamma"], [])),
        (2, ["beta"], 6),
        *((2, ["gamma", "beta"], batch) for batch in (1, 2)),
    ],
    ids=str,
)
def test_outputs_and_gradients_equal_those_of_the_composed_operations(feature_axes, affine, batch):
    """Statistics of fewer than two sequences are replaced by the fallback."""
    x, weights = draw((2, batch, 4, 5))
    given = [draw(5) for _ in affine]
    fallback = (draw((4, 5)), draw((4, 5)) ** 2) if feature_axes == 2 else None

    def loss(normalized):
        def function(x, *values):
            named = dict(zip(affine, values, strict=True))
            y = normalized(x, named.get("gamma"), named.get("beta"), feature_axes, fallback)
            return tf.reduce_sum(tf.cast(weights, y.dtype) * y), y

        return function

    found, expected = loss(fused), loss(composed)
    np.testing.assert_allclose(found(x, *given)[1], expected(x, *given)[1], rtol=1e-4, atol=1e-4)
    assert_all_close(
        gradients(lambda *a: found(*a)[0], x, *given, dtype="float32"),
        gradients(lambda *a: expected(*a)[0], x, *given, dtype="float64"),
        rtol=1e-4,
        atol=1e-4,
    )


@every_axes
def test_second_derivatives_equal_those_of_the_composed_operations(feature_axes):
    x, gamma, u, weights = draw((4, 6, 4, 5))

    def slope(normalized):
        def second(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = normalized(x, tf.cast(gamma[0, 0], x.dtype), None, feature_axes)
                loss = tf.reduce_sum(tf.cast(weights, x.dtype) * y * y)
            return tf.reduce_sum(tf.cast(u, x.dtype) * tape.gradient(loss, x))

        return second

    (actual,) = gradients(slope(fused), x, dtype="float32")
    (expected,) = gradients(slope(composed), x, dtype="float64")
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, 12345.678, 1e7])
def test_a_constant_feature_gives_beta(value):
    y, *_ = normalize_batch(np.full((64, 5), value, "float32"), None, tf.ones(5), 1e-5)
    np.testing.assert_allclose(y, np.ones((64, 5)), rtol=1e-6)


def test_gradients_with_given_statistics_are_exact():
    x, weights = draw((2, 6, 4, 5))
    mean, variance, gamma, beta = draw((4, 5))
    given, sources = (mean, variance**2), [x, gamma, beta]

    def loss(k, value):
        x, *affine = [*sources[:k], value, *sources[k + 1 :]]
        y = oracles.batch_norm_inference(x, *given, *affine, epsilon=EPSILON)
        return (weights * y).sum()

    def fused(x, *affine):
        return tf.reduce_sum(weights * normalize_with_statistics(x, *given, *affine, EPSILON))

    expected = [oracles.gradient(lambda v, k=k: loss(k, v), s) for k, s in enumerate(sources)]
    assert_all_close(gradients(fused, *sources, dtype="float32"), expected, rtol=1e-4, atol=1e-4)


def test_given_statistics_keep_the_digits_of_a_large_mean():
    mean = np.full(5, 1e7, "float32")
    x = (mean + np.round(10 * RNG.normal(size=(64, 5)))).astype("float32")
    y = normalize_with_statistics(x, mean, np.full(5, 100, "float32"), None, None, 0.0)
    np.testing.assert_allclose(y, (x.astype("float64") - mean) / 10, rtol=1e-6)
