"""Dtypes, replicas and fallbacks of means and variances; tests/layers compares their values."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.moments import moments, statistics_dtype

RNG = np.random.default_rng(0)
X = RNG.normal(2.0, 3.0, (4, 3, 5))


def test_unmasked_nan_gives_nan():
    x = X.copy()
    x[0, 0, 0] = np.nan
    for mask in (None, np.ones((4, 3, 1), bool)):
        assert np.isnan(moments(tf.constant(x), [0, 1], mask).mean[0, 0, 0])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64",) * 2],
)
def test_statistics_are_float32_or_wider(dtype, expected):
    assert statistics_dtype(dtype) == expected
    m = moments(tf.cast(X, dtype), [0])
    assert {t.dtype.name for t in (m.mean, m.variance, m.centered)} == {expected}


def test_sums_over_replicas_are_used():
    """Two replicas with equal rows double the count, and change no moment and no gradient."""
    x, weights, found = tf.constant(X), RNG.normal(size=(3, *X.shape)), []
    for options in ({}, {"all_reduce": lambda s: 2.0 * s}):
        with tf.GradientTape() as tape:
            tape.watch(x)
            m = moments(x, [0], **options)
            results = (m.mean, m.variance, m.centered)
            loss = sum(tf.reduce_sum(w * r) for w, r in zip(weights, results, strict=True))
        found.append([*results, tape.gradient(loss, x), m.count * (1.0 if options else 2.0)])
    for together, alone in zip(*found, strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-12)


# 1, 2 and 4 of the 4 rows are unmasked at the three timesteps.
UNMASKED = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]], bool)[..., None]


def test_fallback_statistics_replace_those_of_too_few_positions():
    fallback = (tf.constant(RNG.normal(size=(3, 5))), tf.constant(RNG.uniform(1, 2, size=(3, 5))))
    m = moments(tf.constant(X), [0], UNMASKED, min_count=2, fallback=fallback)
    batch = moments(tf.constant(X), [0], UNMASKED)
    for actual, own, given in zip((m.mean, m.variance), batch[1:3], fallback, strict=True):
        np.testing.assert_allclose(actual[:, :1], given[None, :1], rtol=1e-12)
        np.testing.assert_array_equal(actual[:, 1:], own[:, 1:])
    np.testing.assert_allclose(m.centered, X - m.mean, atol=1e-12)


def test_fallback_statistics_get_no_gradient():
    fallback = (tf.constant(RNG.normal(size=(3, 5))), tf.ones((3, 5), "float64"))
    x = tf.constant(X)
    weights = RNG.normal(size=(2, *X.shape))
    with tf.GradientTape() as tape:
        tape.watch([x, *fallback])
        m = moments(x, [0], UNMASKED, min_count=2, fallback=fallback)
        loss = tf.reduce_sum(weights[0] * m.centered) + tf.reduce_sum(weights[1, :1] * m.variance)
    dx, *others = tape.gradient(loss, [x, *fallback])
    np.testing.assert_allclose(dx[:, 0], weights[0][:, 0], rtol=1e-12)
    assert others == [None, None]


def test_fallback_statistics_may_vary_along_the_reduced_axis():
    """They vary if the sequences of a batch are at different timesteps."""
    x = X[:1, 0]
    rows = RNG.normal(size=(4, 5))
    m = moments(tf.constant(np.repeat(x, 4, axis=0)), [0], min_count=5, fallback=(rows, rows**2))
    np.testing.assert_allclose(m.centered, x - rows, atol=1e-12)
    np.testing.assert_allclose(m.variance, rows**2)
    weights, x, found = RNG.normal(size=(2, 4, 5)), tf.constant(X[:, 0]), []
    for fallback in ((rows, rows**2), None):
        with tf.GradientTape() as tape:
            tape.watch(x)
            m = moments(x, [0], min_count=2, fallback=fallback)
            loss = tf.reduce_sum(weights[0] * m.centered + weights[1] * m.variance)
        found.append(tape.gradient(loss, x))
    np.testing.assert_allclose(*found, atol=1e-12)
