"""Garbage collection frees the training step of a model, after `keras.backend.clear_session()`."""

import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.keras_internals import release_gradients
from tests import without_xla


def traced_graphs():
    gc.collect()
    return sum(isinstance(found, tf.Graph) for found in gc.get_objects())


def train_and_delete(layer):
    model = keras.Sequential([keras.Input((5, 3)), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.train_on_batch(np.ones((4, 5, 3)), np.zeros((4, 1)))
    del model, layer
    keras.backend.clear_session()
    without_xla.traced.cache_clear()
    with tf.Graph().as_default():
        release_gradients()


@pytest.fixture(scope="module")
def before():
    """Number of graphs after the training of a layer of Keras."""
    train_and_delete(keras.layers.LSTM(4))
    return traced_graphs()


@pytest.mark.parametrize("layer_class", [keras_norm.LayerNormSimpleRNN, keras_norm.LayerNormGRU])
def test_a_deleted_model_leaves_no_graphs(before, layer_class):
    compiled = "auto" if layer_class is keras_norm.LayerNormGRU else False
    train_and_delete(layer_class(4, compiled=compiled))
    assert traced_graphs() <= before
