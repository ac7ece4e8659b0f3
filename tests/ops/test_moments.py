"""Mean, variance and normalization of tensors, against NumPy and the oracles."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.moments import moments, normalize, statistics_dtype
from tests import oracles

RNG = np.random.default_rng(0)
X = RNG.normal(2.0, 3.0, (4, 3, 5))
MASKS = {
    "none": None,
    "batch": np.array([1, 0, 1, 1], bool)[:, None, None],
    "batch and time": RNG.random((4, 3, 1)) < 0.6,
    "full": RNG.random((4, 3, 5)) < 0.6,
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def masked(x, mask):
    return np.ma.array(x, mask=np.broadcast_to(False if mask is None else ~mask, x.shape))


@every_mask
@pytest.mark.parametrize("axes", [[0], [0, 1], [2], [0, 1, 2]], ids=str)
def test_moments_of_what_the_mask_keeps(axes, mask):
    """Where nothing is kept, mean and variance are 0."""
    m = moments(tf.constant(X), axes, mask)
    kept, over = masked(X, mask), {"axis": tuple(axes), "keepdims": True}
    mean, variance = (np.ma.filled(s(**over), 0.0) for s in (kept.mean, kept.var))
    np.testing.assert_allclose(m.mean, mean, atol=1e-12)
    np.testing.assert_allclose(m.centred, X - mean, atol=1e-12)
    np.testing.assert_allclose(m.variance, variance, atol=1e-12)
    count = kept.count(**over)
    np.testing.assert_array_equal(np.broadcast_to(m.count, np.shape(count)), count)


@every_mask
def test_gradients_of_mean_variance_and_centred(mask):
    x = tf.constant(X)
    weights = [RNG.normal(size=s) for s in ((1, 1, 5), (1, 1, 5), X.shape)]

    def expected_loss(x):
        full = np.broadcast_to(True if mask is None else mask, X.shape)
        mean, variance = oracles.batch_statistics(x, -1, full)
        results = (mean.reshape(1, 1, 5), variance.reshape(1, 1, 5), x - mean)
        return sum((w * r).sum() for w, r in zip(weights, results, strict=True))

    with tf.GradientTape() as tape:
        tape.watch(x)
        m = moments(x, [0, 1], mask)
        results = (m.mean, m.variance, m.centred)
        loss = sum(tf.reduce_sum(w * r) for w, r in zip(weights, results, strict=True))
    np.testing.assert_allclose(
        tape.gradient(loss, x), oracles.gradient(expected_loss, X), atol=1e-12
    )


def test_nothing_kept_gives_zeros():
    m = moments(tf.constant(X), [0, 1], np.zeros((4, 3, 1), bool))
    for value in (m.mean, m.variance, m.count):
        np.testing.assert_array_equal(value, np.zeros_like(value))


def test_hidden_nan_reaches_neither_moments_nor_gradients():
    mask = MASKS["batch"]
    x = tf.constant(np.where(mask, X, np.nan))
    with tf.GradientTape() as tape:
        tape.watch(x)
        m = moments(x, [0, 1], mask)
        loss = tf.reduce_sum(m.mean + m.variance)
    np.testing.assert_allclose(m.mean, moments(tf.constant(X), [0, 1], mask).mean, atol=1e-12)
    assert np.isfinite(tape.gradient(loss, x)).all()


def test_nan_that_counts_is_shown():
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
    assert {t.dtype.name for t in (m.mean, m.variance, m.centred)} == {expected}


def test_large_mean_costs_no_digits():
    x = (1e7 + np.round(10 * X)).astype("float32")
    m, exact = moments(tf.constant(x), [0, 1, 2]), x.astype("float64")
    np.testing.assert_allclose(np.ravel(m.variance), exact.var(), rtol=1e-5)
    np.testing.assert_allclose(m.centred, exact - exact.mean(), atol=1e-3)


def test_float16_near_its_maximum_does_not_overflow():
    x = np.array([60000.0, -60000.0], "float16")
    np.testing.assert_allclose(moments(tf.constant(x), [0]).variance, [3.6e9], rtol=1e-2)


def test_sums_over_replicas_are_used():
    """Two replicas with the same rows: twice the count, the same mean and variance."""
    m = moments(tf.constant(X), [0], all_reduce=lambda s: 2.0 * s)
    alone = moments(tf.constant(X), [0])
    np.testing.assert_allclose(m.count, 2.0 * alone.count)
    np.testing.assert_allclose(m.mean, alone.mean, atol=1e-12)
    np.testing.assert_allclose(m.variance, alone.variance, atol=1e-12)


@pytest.mark.parametrize(("placement", "expected"), [("inside", 6.0 / 5.0), ("outside", 6.0 / 5.0)])
def test_normalize_by_hand(placement, expected):
    """sqrt(16 + 9) inside; sqrt(16) + 1 outside; both are 5."""
    epsilon = 9.0 if placement == "inside" else 1.0
    y = normalize(tf.constant([3.0]), tf.constant([16.0]), epsilon, epsilon_placement=placement)
    np.testing.assert_allclose(y * 2.0, [expected], rtol=1e-6)


def test_gain_and_offset():
    y = normalize(
        tf.constant([3.0]), 16.0 * tf.ones(1), 0.0, tf.constant([8.0]), tf.constant([1.0])
    )
    np.testing.assert_allclose(y, [7.0], rtol=1e-6)


def test_constant_rows_have_finite_gradients_with_epsilon_outside():
    x = tf.ones((2, 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        m = moments(x, [1])
        y = normalize(m.centred, m.variance, 1e-3, epsilon_placement="outside")
    assert np.isfinite(tape.gradient(y, x)).all()
