"""The programs and the sizes that the custom gradient is compiled for."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm import LayerNormalization
from keras_norm.rnn.core import tensorflow_gradient
from tests import without_xla
from tests.rnn import kinds
from tests.rnn.kinds import LSTM, SIMPLE_RNN

LAYER_NORM = LayerNormalization()


def test_stacked_layers_share_their_programs(monkeypatch):
    found = set()

    def record(*of):
        found.add(of)
        return without_xla.traced(*of)

    monkeypatch.setattr(tensorflow_gradient, "traced", record)
    for return_sequences in (True, True, False):
        layer = kinds.build(SIMPLE_RNN, LAYER_NORM, return_sequences=return_sequences)
        kinds.train(layer, kinds.cast(kinds.inputs()))
    assert len(found) == 2


@pytest.fixture
def sizes(monkeypatch):
    """Record the sizes (time, batch) of the forward loop; XLA compiles a program for each."""
    found, traced = set(), tensorflow_gradient.traced

    def record(shape):
        found.add(tuple(shape.numpy()[:2]))

    def recording(function, *settings):
        program = traced(function, *settings)

        def run(weights, steps, xs, *args):
            tf.py_function(record, [tf.shape(xs[0])], [])
            return program(weights, steps, xs, *args)

        return run if function is tensorflow_gradient._forward else program

    monkeypatch.setattr(tensorflow_gradient, "traced", recording)
    return found


def fit(lengths, batch_size, samples):
    model = keras.Sequential([keras.Input((None, 2)), SIMPLE_RNN.preset("LayerNorm")(2)])
    model.compile("sgd", "mse")
    rng = np.random.default_rng(0)

    def batches():
        for length in lengths:
            x = rng.normal(size=(samples, length, 2)).astype("float32")
            for start in range(0, samples, batch_size):
                now = x[start : start + batch_size]
                yield now, np.zeros((len(now), 2), "float32")

    steps = len(lengths) * -(-samples // batch_size)
    model.fit(batches(), steps_per_epoch=steps, shuffle=False, verbose=0)


def test_a_smaller_last_batch_reuses_the_program_of_the_others(sizes):
    fit([5], 32, 50)
    assert sizes == {(5, 16)}


def test_sixty_lengths_compile_a_dozen_programs(sizes):
    fit(range(1, 61), 2, 2)
    assert {time for time, _ in sizes} == {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}


def test_static_sizes_are_not_rounded_up(sizes):
    layer = kinds.build(LSTM, LAYER_NORM)
    tf.function(lambda x: layer(x, training=True), autograph=False)(tf.constant(kinds.inputs(7, 5)))
    assert sizes == {(5, 4)}
