"""Higher-order derivatives match the loop, or raise an error with advice."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm import LayerNormalization, TimestepBatchNormalization
from tests.rnn import kinds
from tests.rnn.kinds import GRU, LSTM, MASK, SIMPLE_RNN

RESETS = np.arange(MASK.size).reshape(MASK.shape) % 3 == 1


def penalty(layer, x, states, mask, resets=None):
    """Gradient of a gradient penalty, for inputs, states and weights."""
    sources = [x, *states, *(v.value for v in layer.trainable_variables)]
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as inner:
            inner.watch(sources)
            call = {"initial_state": states, "mask": mask, "resets": resets}
            loss = tf.reduce_sum(tf.sin(layer(x, training=True, **call)[0]))
        first = inner.gradient(loss, sources)
        size = tf.add_n([tf.reduce_sum(tf.square(g)) for g in first if g is not None])
    return outer.gradient(size, sources, unconnected_gradients="zero")


@pytest.mark.parametrize(
    ("kind", "norm", "resets"),
    [
        (LSTM, LayerNormalization(), None),
        (GRU, LayerNormalization(), RESETS),
        (SIMPLE_RNN, TimestepBatchNormalization(3), None),
    ],
    ids=["LSTM", "GRU with resets", "SimpleRNN"],
)
def test_second_derivatives_match_the_loop(kind, norm, resets):
    kinds.assert_compiled_equals_loop(
        lambda **compiled: kinds.build(kind, norm, **compiled),
        kinds.cast(kinds.inputs()),
        kinds.cast(kinds.initial_states(kind)),
        MASK,
        resets,
        run=penalty,
        atol=1e-9,
    )


def test_second_derivatives_match_if_one_part_of_the_batch_is_empty():
    """Ten sequences are padded to two parts of 16; the second part is empty."""
    layer, x = kinds.build(SIMPLE_RNN, LayerNormalization()), kinds.cast(kinds.inputs(10, 2))
    found = two_tapes(lambda x: layer(x, training=True)[0], x)
    layer.compiled = False
    kinds.assert_close(found, two_tapes(lambda x: layer(x, training=True)[0], x))


def two_tapes(call, x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(tf.sin(call(x)))
        first = tf.reduce_sum(inner.gradient(y, x) ** 2)
    return outer.gradient(first, x)


def two_gradients(call, x):
    (first,) = tf.gradients(tf.reduce_sum(tf.sin(call(x))), x)
    return tf.gradients(tf.reduce_sum(first**2), x)[0]


def jacobian(call, x, pfor=True):
    with tf.GradientTape(persistent=not pfor) as tape:
        tape.watch(x)
        y = call(x)
    return tape.jacobian(y, x, experimental_use_pfor=pfor)


def layer_of(compiled):
    layer = keras_norm.LayerNormSimpleRNN(2, compiled=compiled)
    return kinds.built(layer)


@pytest.mark.usefixtures("xla")
@pytest.mark.parametrize(
    ("derivative", "batch"),
    [pytest.param(two_gradients, 2, marks=pytest.mark.slow), (jacobian, None)],
)
def test_derivatives_of_the_compiled_gradient_match_the_loop(derivative, batch):
    """TensorFlow vectorizes the gradient for the Jacobian; with a batch of one, a part is empty.

    The loop runs eagerly: a tape replaces `tf.gradients`, and a loop replaces the vectorization.
    """
    x = tf.constant(kinds.draw(batch or 1, 4, 2), "float32")
    call = functools.partial(layer_of("auto"), training=True)
    signature = [tf.TensorSpec((batch, 4, 2))]
    found = tf.function(lambda x: derivative(call, x), signature, autograph=False)(x)
    of_loop = two_tapes if batch else functools.partial(jacobian, pfor=False)
    expected = of_loop(functools.partial(layer_of(False), training=True), x)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def tangent(layer, x, training):
    with tf.autodiff.ForwardAccumulator(x, tf.sin(x)) as accumulator:
        y = layer(x, training=training)
    return accumulator.jvp(y)


def test_forward_mode_raises_in_training():
    """XLA would return a zero derivative without an error."""
    layer = keras_norm.LayerNormSimpleRNN(2)
    x = tf.constant(kinds.draw(2, 4, 2), "float32")
    with pytest.raises(NotImplementedError, match=r"ForwardAccumulator.*compiled=False"):
        tangent(layer, x, training=True)


def test_a_second_gradient_under_jit_compile_raises_with_advice():
    call = functools.partial(layer_of("auto"), training=True)
    compiled = tf.function(lambda x: two_tapes(call, x), autograph=False, jit_compile=True)
    with pytest.raises(NotImplementedError, match=r"jit_compile=True.*compiled=False"):
        compiled(tf.constant(kinds.draw(2, 4, 2), "float32"))


@pytest.mark.parametrize(("compiled", "training"), [("auto", False), (False, True)])
def test_forward_mode_works_on_the_loop(compiled, training):
    layer = keras_norm.LayerNormSimpleRNN(2, dtype="float64", compiled=compiled)
    x, step = tf.constant(kinds.draw(2, 4, 2)), 1e-5
    layer.build(x.shape)
    kinds.randomize(layer)
    after, before = (layer(x + s * tf.sin(x), training=training) for s in (step, -step))
    kinds.assert_close(tangent(layer, x, training), (after - before) / (2 * step), 1e-8)
