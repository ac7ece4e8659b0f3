"""Inputs with dynamic sizes, and ragged inputs."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from tests.check_layer import assert_refused

X = np.random.default_rng(0).normal(1.0, 2.0, size=(4, 3, 5)).astype("float32")
RAGGED = tf.ragged.constant([[[1.0, 2, 4], [3, 4, 9]], [], [[5, 6, 1]]], ragged_rank=1)
LAYERS = {
    "layer": lambda: keras_norm.LayerNormalization(),
    "layer, axes": lambda: keras_norm.LayerNormalization(axis=[1, 2]),
    "rms": lambda: keras_norm.RMSNormalization(),
    "variance": lambda: keras_norm.VarianceNormalization(scale=True),
    "batch": lambda: keras_norm.BatchNormalization(),
    "ghosts": lambda: keras_norm.BatchNormalization(axis=1, virtual_batch_size=2),
    "timesteps": lambda: keras_norm.TimestepBatchNormalization(2),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_all_sizes_of_the_inputs_of_a_built_layer_may_be_dynamic(name, training):
    first, second = LAYERS[name](), LAYERS[name]()
    first.build(X.shape)
    second.build(X.shape)
    options = (
        {"training": training} if "training" in inspect.signature(first.call).parameters else {}
    )
    spec = tf.TensorSpec((None, None, None))
    y = tf.function(lambda x: first(x, **options), input_signature=[spec])(X)
    np.testing.assert_allclose(y, second(X, **options), rtol=0, atol=1e-6)
    for ours, expected in zip(first.weights, second.weights, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_another_dynamic_size_is_refused_when_the_graph_runs():
    layer = keras_norm.LayerNormalization()
    layer.build((None, 1))
    graph = tf.function(layer, input_signature=[tf.TensorSpec((None, None))])
    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        graph(np.zeros((2, 3), "float32"))


@pytest.mark.parametrize("name", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("axis", [-1, 2, [2]], ids=str)
def test_a_ragged_tensor_is_normalized_as_by_keras(name, axis):
    ours, theirs = (getattr(module, name)(axis) for module in (keras_norm, keras.layers))
    expected = theirs(RAGGED)
    for y in (ours(RAGGED), tf.function(ours)(RAGGED)):
        np.testing.assert_array_equal(y.row_splits, expected.row_splits)
        np.testing.assert_allclose(y.values, expected.values, rtol=0, atol=1e-6)


def test_a_ragged_axis_is_refused():
    layer = keras_norm.LayerNormalization(axis=[1, 2])
    layer.build((None, 2, 3))
    assert_refused(lambda: layer(RAGGED), "flat_values", "axis=[1, 2]", "(3, None, 3)")
