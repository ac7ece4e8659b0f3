"""`apply_to_rows` with a dynamic time equals Keras' TimeDistributed with a static time."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.time_distributed import apply_to_rows

X = np.random.default_rng(0).normal(size=(3, 5, 4, 2)).astype("float32")


@pytest.mark.parametrize(
    "inner",
    [
        lambda: keras.layers.Dense(3),
        lambda: keras.layers.SimpleRNN(3),
        lambda: keras.layers.Conv1D(3, 2),
        lambda: keras.Sequential([keras.Input((4, 2)), keras.layers.Flatten()]),
    ],
    ids=["Dense", "SimpleRNN", "Conv1D", "model"],
)
def test_outputs_with_a_dynamic_time_equal_those_with_a_static_time(inner):
    layer = keras.layers.TimeDistributed(inner())
    expected = layer(X)  # time is static in an eager call
    shape = tf.TensorSpec((None, None, 4, 2), "float32")
    graph = tf.function(lambda x: apply_to_rows(layer, x), input_signature=[shape], autograph=False)
    np.testing.assert_allclose(graph(X), expected, rtol=1e-5, atol=1e-6)


class MultiplyByMask(keras.layers.Layer):
    """Sets masked rows to zero."""

    def call(self, inputs, mask=None):
        return inputs * keras.ops.cast(mask[:, None, None], "float32")


def test_the_inner_layer_gets_the_mask_of_its_rows():
    mask = np.random.default_rng(1).random((3, 5)) < 0.5
    layer = keras.layers.TimeDistributed(MultiplyByMask())
    y = apply_to_rows(layer, keras.ops.convert_to_tensor(X), mask=keras.ops.convert_to_tensor(mask))
    np.testing.assert_array_equal(y, layer(X, mask=mask))
