"""What is told of a model before it is exported."""

import keras
import numpy as np
import pytest

from keras_norm.export.exporting.refusals import warn_of_fixed_batch

X = np.random.default_rng(0).normal(size=(5, 7, 3)).astype("float32")


def first_called():
    model = keras.Sequential([keras.layers.SimpleRNN(2)], name="called")
    model(X)
    return model


def test_the_sizes_of_a_first_call_are_told(caplog):
    warn_of_fixed_batch(first_called())
    assert 'model "called" has a fixed batch of 5' in caplog.text
    assert "let it begin with keras.Input(shape)" in caplog.text


@pytest.mark.parametrize("batch", [None, 5])
def test_of_sizes_that_were_meant_nothing_is_told(batch, caplog):
    inputs = keras.Input((None, 3), batch_size=batch)
    functional = keras.Model(inputs, keras.layers.SimpleRNN(2)(inputs))
    warn_of_fixed_batch(functional)
    warn_of_fixed_batch(keras.Sequential([keras.Input((None, 3)), keras.layers.SimpleRNN(2)]))
    assert not caplog.records
