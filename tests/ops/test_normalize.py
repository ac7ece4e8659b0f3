"""Division by the standard deviation, gamma and beta, against NumPy and the complex step."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.ops.moments import moments
from keras_norm.ops.normalize import normalize
from tests import oracles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3, 5))
# Shapes of variance, gamma and beta that broadcast to the shape of X.
SHAPES = {
    "rows": ((4, 3, 1), (1, 1, 5), (1, 1, 5)),
    "features": ((1, 1, 5), (1, 1, 5), (1, 1, 5)),
    "timesteps": ((1, 3, 5), (1, 1, 5), (1, 1, 5)),
    "channels first": ((1, 3, 1), (1, 3, 1), (1, 3, 1)),
    "rows of matrices": ((4, 1, 1), (1, 3, 5), (1, 3, 5)),
    "every element": ((4, 3, 5), (4, 3, 5), (4, 3, 5)),
    "no gamma": ((4, 3, 1), None, (1, 1, 5)),
    "no beta": ((1, 1, 5), (1, 1, 5), None),
    "neither": ((4, 3, 1), None, None),
    "fewer dimensions": ((3, 5), (1, 1, 5), (1, 1, 5)),
}
every_shape = pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
every_placement = pytest.mark.parametrize("placement", ["inside", "outside"])


def draw(shapes):
    """Draw a variance, a gamma and a beta; None for a shape of None."""
    variance, *affine = (None if s is None else RNG.normal(size=s) for s in shapes)
    return variance**2 + 0.1, *affine


def expected(x, variance, gamma, beta, placement):
    root = np.sqrt(variance + 0.5) if placement == "inside" else np.sqrt(variance) + 0.5
    return x / root * (1.0 if gamma is None else gamma) + (0.0 if beta is None else beta)


@every_shape
@every_placement
def test_outputs_and_gradients_equal_numpy_for_static_and_dynamic_sizes(shapes, placement):
    arrays, weights = (X, *draw(shapes)), RNG.normal(size=X.shape)
    present = [i for i, a in enumerate(arrays) if a is not None]

    def run(*watched):
        with tf.GradientTape() as tape:
            tape.watch(watched)
            x, variance, gamma, beta = map(dict(zip(present, watched, strict=True)).get, range(4))
            y = normalize(x, variance, 0.5, gamma, beta, placement)
            loss = tf.reduce_sum(weights * y)
        return y, tape.gradient(loss, watched)

    def dynamic(a):
        batch = None if a.shape[0] == 4 else a.shape[0]
        return tf.TensorSpec((batch, *a.shape[1:]), "float64")

    given = [tf.constant(arrays[i]) for i in present]
    graph = tf.function(run, input_signature=list(map(dynamic, given)), autograph=False)
    results = [run(*given), graph(*given)]
    for y, _ in results:
        np.testing.assert_allclose(y, expected(*arrays, placement), rtol=1e-12, atol=1e-12)
    for k, i in enumerate(present):

        def loss(v, i=i):
            return (weights * expected(*arrays[:i], v, *arrays[i + 1 :], placement)).sum()

        exact = oracles.gradient(loss, arrays[i])
        for _, gradients in results:
            np.testing.assert_allclose(gradients[k], exact, atol=1e-12)


@every_placement
@pytest.mark.parametrize("axes", [[2], [0, 1], [0]], ids=["rows", "features", "timesteps"])
def test_second_derivatives_equal_differences_of_first_derivatives(axes, placement):
    gamma, weights, u, v = RNG.normal(size=(4, *X.shape))
    gamma = gamma[:1, :1]

    def loss(x):
        m = moments(x, axes)
        y = normalize(m.centered, m.variance, 0.5, tf.constant(gamma), None, placement)
        return tf.reduce_sum(weights * tf.square(y))

    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x)
        return tf.reduce_sum(u * tape.gradient(value, x))

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        first = slope(x)
    second = tf.reduce_sum(v * tape.gradient(first, x))
    step = 1e-5
    difference = (slope(x + step * v) - slope(x - step * v)) / (2 * step)
    np.testing.assert_allclose(second, difference, rtol=1e-7)
