"""Weighted sums over axes, against NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops import sums
from keras_norm.ops.sums import broadcast_axes, total

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3, 5))
AXES = [axes for n in range(4) for axes in itertools.combinations(range(3), n)]
WEIGHTS = [None, *itertools.product((1, 4), (1, 3), (1, 5))]


def draw(shape):
    return None if shape is None else RNG.normal(size=shape)


def expected(x, axes, weights):
    weights = 1.0 if weights is None else weights
    return np.sum(np.broadcast_to(x * weights, x.shape), axis=tuple(axes), keepdims=True)


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_sums_over_any_axes_with_any_weights_equal_numpy(axes):
    for shape in WEIGHTS:
        weights = draw(shape)
        tensor = None if shape is None else tf.constant(weights)
        actual = total(tf.constant(X), axes, tensor)
        np.testing.assert_allclose(actual, expected(X, axes, weights), atol=1e-12)
    empty = tf.zeros((0, 3, 5))
    np.testing.assert_array_equal(total(empty, axes), np.sum(empty, axis=axes, keepdims=True))


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_sizes_may_be_dynamic(axes):
    weights = [draw(shape) for shape in (None, (4, 1, 1), (1, 3, 5), (1, 1, 5))]
    graph = tf.function(
        lambda x: [total(x, axes, None if w is None else tf.constant(w)) for w in weights],
        input_signature=[tf.TensorSpec((None, None, 5), "float64")],
        autograph=False,
    )
    for actual, w in zip(graph(X), weights, strict=True):
        np.testing.assert_allclose(actual, expected(X, axes, w), atol=1e-12)


def test_sums_outside_the_cpu_use_the_sum_of_the_backend(monkeypatch):
    monkeypatch.setattr(sums, "computes_on_cpu", lambda: False)
    np.testing.assert_allclose(total(tf.constant(X), [0, 1]), expected(X, [0, 1], None), atol=1e-12)


def test_broadcast_axes_are_the_axes_of_size_one_in_only_one_of_the_tensors():
    for axes in AXES:
        like = np.sum(X, axis=tuple(axes), keepdims=True)
        assert broadcast_axes(X, like) == [*axes]
    assert broadcast_axes(np.zeros((1, 3)), np.zeros((1, 1))) == [1]
