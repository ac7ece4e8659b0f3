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


@pytest.mark.parametrize(("placement", "expected"), [("inside", 6.0 / 5.0), ("outside", 6.0 / 5.0)])
def test_epsilon_is_added_inside_or_outside_the_square_root(placement, expected):
    """Both sqrt(16 + 9), with epsilon inside, and sqrt(16) + 1, with epsilon outside, are 5."""
    epsilon = 9.0 if placement == "inside" else 1.0
    y = normalize(tf.constant([3.0]), tf.constant([16.0]), epsilon, epsilon_placement=placement)
    np.testing.assert_allclose(y * 2.0, [expected], rtol=1e-6)


def test_gamma_multiplies_and_beta_is_added():
    y = normalize(
        tf.constant([3.0]), 16.0 * tf.ones(1), 0.0, tf.constant([8.0]), tf.constant([1.0])
    )
    np.testing.assert_allclose(y, [7.0], rtol=1e-6)


def draw(shapes):
    """Draw a variance, a gamma and a beta; None for a shape of None."""
    variance, *affine = (None if s is None else RNG.normal(size=s) for s in shapes)
    return variance**2 + 0.1, *affine


def expected(x, variance, gamma, beta, placement):
    root = np.sqrt(variance + 0.5) if placement == "inside" else np.sqrt(variance) + 0.5
    return x / root * (1.0 if gamma is None else gamma) + (0.0 if beta is None else beta)


def tensors(arrays):
    return [None if a is None else tf.constant(a) for a in arrays]


@every_shape
@every_placement
def test_output_equals_numpy(shapes, placement):
    arrays = draw(shapes)
    variance, gamma, beta = tensors(arrays)
    y = normalize(tf.constant(X), variance, 0.5, gamma, beta, placement)
    np.testing.assert_allclose(y, expected(X, *arrays, placement), rtol=1e-12, atol=1e-12)


@every_shape
@every_placement
@pytest.mark.parametrize("static", [True, False], ids=["static sizes", "dynamic sizes"])
def test_gradients_are_exact(shapes, placement, static):
    arrays, weights = (X, *draw(shapes)), RNG.normal(size=X.shape)
    present = [i for i, a in enumerate(arrays) if a is not None]

    def gradients(x, *tensors):
        watched = [x, *tensors]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            by_index = dict(zip(present, watched, strict=True))
            variance, gamma, beta = (by_index.get(i) for i in (1, 2, 3))
            y = normalize(x, variance, 0.5, gamma, beta, placement)
            loss = tf.reduce_sum(weights * y)
        return tape.gradient(loss, watched)

    def spec(i):
        batch = None if not static and arrays[i].shape[0] == 4 else arrays[i].shape[0]
        return tf.TensorSpec((batch, *arrays[i].shape[1:]), "float64")

    actual = tf.function(gradients, input_signature=[spec(i) for i in present], autograph=False)(
        *(tf.constant(arrays[i]) for i in present)
    )
    for i, gradient in zip(present, actual, strict=True):

        def loss(v, i=i):
            return (weights * expected(*arrays[:i], v, *arrays[i + 1 :], placement)).sum()

        np.testing.assert_allclose(gradient, oracles.gradient(loss, arrays[i]), atol=1e-12)


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


def test_constant_rows_have_finite_gradients_with_epsilon_outside():
    x = tf.ones((2, 3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        m = moments(x, [1])
        y = normalize(m.centered, m.variance, 1e-3, epsilon_placement="outside")
    assert np.isfinite(tape.gradient(y, x)).all()
