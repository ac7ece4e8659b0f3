"""Mean and variance of tensors, against NumPy and the oracles."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.moments import mean_square, moments, statistics_dtype
from tests import oracles

RNG = np.random.default_rng(0)
X = RNG.normal(2.0, 3.0, (4, 3, 5))
MASKS = {
    "none": None,
    "batch": np.array([1, 0, 1, 1], bool)[:, None, None],
    "batch and time": RNG.random((4, 3, 1)) < 0.6,
    "full": RNG.random((4, 3, 5)) < 0.6,
    "nothing": np.zeros((4, 3, 1), bool),
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def masked(x, mask):
    return np.ma.array(x, mask=np.broadcast_to(False if mask is None else ~mask, x.shape))


@every_mask
@pytest.mark.parametrize("axes", [[0], [0, 1], [2], [0, 1, 2]], ids=str)
def test_moments_are_those_of_the_unmasked_positions(axes, mask):
    """Without unmasked positions, mean and variance are 0."""
    m = moments(tf.constant(X), axes, mask)
    unmasked, over = masked(X, mask), {"axis": tuple(axes), "keepdims": True}
    mean, variance = (np.ma.filled(s(**over), 0.0) for s in (unmasked.mean, unmasked.var))
    np.testing.assert_allclose(m.mean, mean, atol=1e-12)
    np.testing.assert_allclose(m.centered, X - mean, atol=1e-12)
    np.testing.assert_allclose(m.variance, variance, atol=1e-12)
    count = unmasked.count(**over)
    np.testing.assert_array_equal(np.broadcast_to(m.count, np.shape(count)), count)


@pytest.mark.parametrize("name", [name for name in MASKS if name != "nothing"])
def test_gradients_of_mean_variance_and_centered_values_are_exact(name):
    x, mask = tf.constant(X), MASKS[name]
    weights = [RNG.normal(size=s) for s in ((1, 1, 5), (1, 1, 5), X.shape)]

    def weighted_sum(sum_of, *results):
        return sum(sum_of(w * r) for w, r in zip(weights, results, strict=True))

    def expected_loss(x):
        full = np.broadcast_to(True if mask is None else mask, X.shape)
        mean, variance = oracles.batch_statistics(x, -1, full)
        return weighted_sum(np.sum, mean[None, None], variance[None, None], x - mean)

    with tf.GradientTape() as tape:
        tape.watch(x)
        m = moments(x, [0, 1], mask)
        loss = weighted_sum(tf.reduce_sum, m.mean, m.variance, m.centered)
    np.testing.assert_allclose(
        tape.gradient(loss, x), oracles.gradient(expected_loss, X), atol=1e-12
    )


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


def test_a_constant_far_from_0_is_centered_exactly():
    m = moments(tf.fill((3, 100), 12345.678), [1])
    np.testing.assert_array_equal(m.centered, np.zeros((3, 100)))
    np.testing.assert_array_equal(m.variance, np.zeros((3, 1)))


@pytest.mark.parametrize("masked_value", [np.nan, np.inf, 3e38])
def test_masked_values_change_neither_moments_nor_gradients(masked_value):
    """The square of the largest float32 is infinite."""
    mask = MASKS["batch"]
    x = tf.constant(np.where(mask, X, masked_value).astype("float32"))
    with tf.GradientTape() as tape:
        tape.watch(x)
        m = moments(x, [0, 1], mask)
        loss = tf.reduce_sum(tf.where(mask, m.centered, 0.0) + m.variance + m.mean)
    alone = moments(tf.boolean_mask(x, mask[:, 0, 0]), [0, 1])
    np.testing.assert_allclose(m.mean, alone.mean, rtol=1e-6)
    np.testing.assert_allclose(m.variance, alone.variance, rtol=1e-6)
    assert np.isfinite(tape.gradient(loss, x)).all()


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


@pytest.mark.parametrize("axes", [[0], [0, 1], [2], [1, 2]], ids=str)
def test_mean_square_and_its_gradient_are_exact(axes):
    x, size = tf.constant(X), np.mean(X, tuple(axes), keepdims=True).size
    weights = RNG.normal(size=np.mean(X, tuple(axes), keepdims=True).shape)
    with tf.GradientTape() as tape:
        tape.watch(x)
        m = mean_square(x, axes)
        loss = tf.reduce_sum(weights * m)
    np.testing.assert_allclose(m, np.mean(X**2, tuple(axes), keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(tape.gradient(loss, x), 2 * X * weights * size / X.size, rtol=1e-12)
