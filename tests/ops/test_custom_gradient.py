"""Custom gradients: which backends use them, and for which tensors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.custom_gradient import with_custom_gradient

X, Y = tf.constant([3.0, 5.0]), tf.constant([2.0, 7.0])


def product(x, y, z):
    """Compute x * y, with ten times its gradient; z gets no gradient and may be None."""
    return x * y, lambda d: [10 * d * y, 10 * d * x]


def gradients(function, *tensors):
    with tf.GradientTape() as tape:
        tape.watch([t for t in tensors if t is not None])
        result = with_custom_gradient(function, *tensors)
    return result, tape.gradient(result, [t for t in tensors if t is not None])


@pytest.mark.parametrize("graph", [False, True])
def test_tensorflow_uses_the_custom_gradient_of_the_tensors_that_are_not_none(graph):
    run = tf.function(gradients, autograph=False) if graph else gradients
    for z in (None, tf.ones(2)):
        result, found = run(product, X, Y, z)
        np.testing.assert_array_equal(result, X * Y)
        np.testing.assert_array_equal(found[:2], [10 * Y, 10 * X])
        assert found[2:] == ([] if z is None else [None])
    _, (dz,) = run(lambda x, y, z: (2 * z, lambda d: [None, None, 3 * d]), None, None, X)
    np.testing.assert_array_equal(dz, [3.0, 3.0])


def test_other_backends_use_their_own_autodiff(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    _, (dx, dy) = gradients(product, X, Y, None)
    np.testing.assert_array_equal(dx, Y)
    np.testing.assert_array_equal(dy, X)
