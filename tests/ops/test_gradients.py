"""Hand-written gradients: who uses them, and for which tensors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.gradients import with_gradient

X, Y = tf.constant([3.0, 5.0]), tf.constant([2.0, 7.0])


def product(x, y, z):
    """x * y, with ten times its gradient; z is not there, or has none."""
    return x * y, lambda d: [10 * d * y, 10 * d * x]


def gradients(function, *tensors):
    with tf.GradientTape() as tape:
        tape.watch([t for t in tensors if t is not None])
        result = with_gradient(function, *tensors)
    return result, tape.gradient(result, [t for t in tensors if t is not None])


@pytest.mark.parametrize("graph", [False, True])
def test_the_gradient_given_is_used(graph):
    run = tf.function(gradients, autograph=False) if graph else gradients
    result, (dx, dy) = run(product, X, Y, None)
    np.testing.assert_array_equal(result, X * Y)
    np.testing.assert_array_equal(dx, 10 * Y)
    np.testing.assert_array_equal(dy, 10 * X)


def test_tensors_left_out_have_no_gradient():
    _, (_, _, dz) = gradients(product, X, Y, tf.ones(2))
    assert dz is None


def test_tensors_that_are_not_there_keep_their_places():
    result, (dz,) = gradients(lambda x, y, z: (2 * z, lambda d: [None, None, 3 * d]), None, None, X)
    np.testing.assert_array_equal(result, 2 * X)
    np.testing.assert_array_equal(dz, [3.0, 3.0])


def test_the_gradient_can_be_differentiated():
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = with_gradient(lambda x: (x**3, lambda d: [3 * d * x**2]), x)
        first = inner.gradient(y, x)
    assert float(outer.gradient(first, x)) == 18.0


def test_other_backends_differentiate_by_themselves(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    _, (dx, dy) = gradients(product, X, Y, None)
    np.testing.assert_array_equal(dx, Y)
    np.testing.assert_array_equal(dy, X)
