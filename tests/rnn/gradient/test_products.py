"""The gradient of a normalized product, compared with TensorFlow's gradient."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.rnn.gradient.norms import RowNorm, product_statistics
from keras_norm.rnn.gradient.products import Product, centre

ROWS, FEATURES, COLUMNS = 7, 3, 6
NORMS = {"none": None, "layer": RowNorm(True, 1e-3), "rms": RowNorm(False, 1e-3)}


def draw(*shape, seed=0):
    return tf.constant(np.random.default_rng([seed, *shape]).normal(size=shape))


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_gradients_of_a_normalized_product_match_tensorflow(norm):
    """y = gamma (a - mean) / sqrt(var + epsilon) + beta with a = x W; RMSNorm has no mean."""
    x, kernel = draw(ROWS, FEATURES), draw(FEATURES, COLUMNS)
    gamma, beta, dy = draw(COLUMNS), draw(COLUMNS, seed=1), draw(ROWS, COLUMNS)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, kernel, gamma, beta])
        centred = centre(kernel, [COLUMNS], [norm is not None and norm.centred])
        a = x @ kernel
        r = []
        if norm is not None:
            if norm.centred:
                a = a - tf.reduce_mean(a, axis=1, keepdims=True)
            r = [tf.math.rsqrt(tf.reduce_mean(a * a, axis=1, keepdims=True) + norm.epsilon)]
            a = gamma * a * r[0]
        loss = tf.reduce_sum((a + beta) * dy)
    expected = tape.gradient(loss, [x, kernel, gamma, beta], unconnected_gradients="zero")

    product = Product(norm, [0], centred, gamma)
    (dx,), terms = product.input_gradient([x], r, dy)
    dw, dgamma, dbeta = product.kernel_gradient([x], r, terms, dy)
    dw = tape.gradient(centred, kernel, output_gradients=dw)
    for found, exact in zip([dx, dw, dgamma, dbeta], expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("centred", [False, True], ids=["rms", "layer"])
def test_column_blocks_with_different_dropout_masks_share_the_norm(centred):
    """Each half of the columns has its own x; LayerNorm subtracts the mean of both halves."""
    norm = RowNorm(centred, 1e-3)
    xs, kernel = [draw(ROWS, FEATURES, seed=s) for s in (1, 2)], draw(FEATURES, COLUMNS)
    gamma, dy = draw(COLUMNS), draw(ROWS, COLUMNS)
    halves = [slice(0, COLUMNS // 2), slice(COLUMNS // 2, COLUMNS)]
    with tf.GradientTape() as tape:
        tape.watch([xs, kernel, gamma])
        a = tf.concat([x @ kernel[:, half] for x, half in zip(xs, halves, strict=True)], axis=1)
        statistics = product_statistics(a, norm, shifted=centred)
        a = a - tf.reduce_mean(a, axis=1, keepdims=True) if centred else a
        r = tf.math.rsqrt(tf.reduce_mean(a * a, axis=1, keepdims=True) + norm.epsilon)
        loss = tf.reduce_sum(gamma * a * r * dy)
    expected = tape.gradient(loss, [xs, kernel, gamma])

    product = Product(norm, [0, 1], kernel, gamma)
    dxs, terms = product.input_gradient(xs, statistics, dy)
    dw, dgamma, _ = product.kernel_gradient(xs, statistics, terms, dy)
    for found, exact in zip([*dxs, dw, dgamma], tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)
