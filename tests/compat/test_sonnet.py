"""The LSTM with a projection computes the outputs and the gradients of Sonnet's."""

import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from tests.compat.recorded import FEATURES, UNITS

sonnet = pytest.importorskip("sonnet", reason="`make test-compat` installs Sonnet")


def test_a_projection_is_that_of_sonnet():
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(6, 3, FEATURES)).astype("float32"))  # (time, batch, features)
    theirs = sonnet.LSTM(UNITS, projection_size=3)
    theirs(x[0], theirs.initial_state(3))
    ours = keras_norm.NormLSTM(UNITS, projection_units=3, return_sequences=True)
    ours.build((3, None, FEATURES))
    of_theirs = [theirs.input_to_hidden, theirs.hidden_to_hidden, theirs.b, theirs.projection]
    for their, our in zip(of_theirs, ours.weights, strict=True):
        their.assign(0.7 * rng.normal(size=their.shape))
        our.assign(their)
    found = []
    for run, weights in (
        (lambda: ours(tf.transpose(x, [1, 0, 2]), training=True), [w.value for w in ours.weights]),
        (lambda: sonnet.static_unroll(theirs, x, theirs.initial_state(3))[0], of_theirs),
    ):
        with tf.GradientTape() as tape:
            y = run()
            loss = tf.reduce_sum(tf.sin(3.0 * y))
        found.append([loss, *tape.gradient(loss, weights)])
    for our, their in zip(*found, strict=True):
        np.testing.assert_allclose(our, their, rtol=0, atol=1e-6 * max(1.0, np.max(np.abs(their))))
