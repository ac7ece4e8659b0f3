"""Keras models for the tests of `convert` and `to_keras`."""

import functools

import keras
import numpy as np

TIME, FEATURES = 6, 5


class MyLSTM(keras.layers.LSTM):
    """A user's layer."""


def randomize(model):
    """Draw all weights, as after training."""
    rng = np.random.default_rng(0)
    for variable in model.weights:
        low = 0.5 if "variance" in variable.name else -0.7
        variable.assign(rng.uniform(low, 0.7, variable.shape))
    return model


def sequences(batch=4):
    x = np.random.default_rng(1).normal(size=(batch, TIME, FEATURES)).astype("float32")
    x[1, 3:] = 0.0  # masked timesteps
    return x


def sequential(*layers, **options):
    inputs = keras.Input((None, FEATURES))
    return randomize(keras.Sequential([inputs, keras.layers.Masking(), *layers], **options))


@functools.cache
def nested():
    """Build a model with every container whose layers are converted; no test changes it."""
    inputs = keras.Input((None, FEATURES), name="x")
    lstm = keras.layers.LSTM(4, return_sequences=True, dropout=0.1, name="lstm")
    x = keras.layers.Bidirectional(lstm, name="both")(inputs)
    inner_inputs = keras.Input((None, 8))
    y = keras.layers.GRU(3, return_sequences=True, name="gru")(inner_inputs)
    y = keras.layers.LayerNormalization(name="ln")(y)
    x = keras.Model(inner_inputs, y, name="inner")(x)
    x = keras.layers.TimeDistributed(keras.layers.BatchNormalization(name="bn"), name="td")(x)
    cells = [keras.layers.LSTMCell(3, name="first"), keras.layers.GRUCell(2, name="second")]
    cells = keras.layers.StackedRNNCells(cells, name="cells")
    x = keras.layers.RNN(cells, return_sequences=True, name="stack")(x)
    x = keras.layers.RNN(keras.layers.SimpleRNNCell(3), return_sequences=True, name="rnn")(x)
    x = keras.layers.RMSNormalization(name="rms")(keras.layers.GRU(2, name="last")(x))
    return randomize(keras.Model(inputs, x))
