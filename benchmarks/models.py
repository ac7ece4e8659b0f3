"""Steps of training and inference of the measured layers, on TensorFlow."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import settings
from benchmarks.recurrent_layers import recurrent_layer
from benchmarks.settings import Shape
from benchmarks.timing import Variant


def compiled(inputs: keras.KerasTensor, *layers: keras.layers.Layer) -> keras.Model:
    """Stack layers into a model, compiled with Keras' defaults."""
    x = inputs
    for layer in layers:
        x = layer(x)
    model = keras.Model(inputs, x)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def recurrent_step(name: str, shape: Shape, mode: str, eager: bool = False) -> Variant:
    """Create a variant that runs one step of the recurrent layer of a name."""
    layer = recurrent_layer(name, shape)
    x = normal(shape.batch, shape.time, shape.inputs)
    return Variant(layer_step(layer, x, mode, jit=name == settings.KERAS_JIT, eager=eager))


def layer_step(
    layer: keras.layers.Layer, x: tf.Tensor, mode: str, jit: bool = False, eager: bool = False
) -> Callable[[], float]:
    """Return a function that runs one step of a layer and fetches one number of the result.

    Args:
        layer: any layer with one input.
        x: input of the layer.
        mode: "inference" runs the forward pass. "training" adds the gradients of all trainable
            weights and of `x`, for random gradients of the outputs.
        jit: whether to compile the step with XLA.
        eager: whether to run the step without a graph.
    """
    layer.build(x.shape)
    weights = [weight.value for weight in layer.trainable_variables]
    dy = tf.cast(normal(*layer.compute_output_shape(x.shape)), layer.compute_dtype)

    def forward(x: tf.Tensor, dy: tf.Tensor) -> tuple[tf.Tensor, Any]:
        y = layer(x, training=False)
        return tf.reshape(y, [-1])[-1], y

    def forward_and_backward(x: tf.Tensor, dy: tf.Tensor) -> tuple[tf.Tensor, Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
        gradients = tape.gradient(y, [x, *weights], output_gradients=dy)
        return tf.reshape(y, [-1])[-1], gradients

    step = forward_and_backward if mode == settings.TRAINING else forward
    if not eager:
        step = tf.function(step, autograph=False, jit_compile=jit or None)
    return lambda: float(step(x, dy)[0])


def normal(*shape: int) -> tf.Tensor:
    """Draw standard normal numbers."""
    return tf.constant(np.random.default_rng(0).normal(size=shape).astype("float32"))
