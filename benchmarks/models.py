"""The measured layers, and their steps of training and inference."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_norm
from benchmarks import settings
from benchmarks.settings import Shape
from benchmarks.timing import Variant


@keras.saving.register_keras_serializable(package="benchmarks")
class LayerNormCell(keras.layers.Layer):
    """An LSTM cell with three Keras norms, as a user writes it without this package.

    ::

        i, f, g, o = LN(W x) + LN(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(LN(c))

    (Ba et al. 2016, arXiv 1607.06450, eq. 20-22.)

    Args:
        units: size of the state.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.state_size = [units, units]
        self.output_size = units
        self.kernel_norm = keras.layers.LayerNormalization(epsilon=1e-5)
        self.recurrent_norm = keras.layers.LayerNormalization(epsilon=1e-5)
        self.state_norm = keras.layers.LayerNormalization(epsilon=1e-5)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights of the cell and of its norms."""
        gates = 4 * self.units
        self.W = self.add_weight(shape=(input_shape[-1], gates), name="W")
        self.U = self.add_weight(shape=(self.units, gates), name="U", initializer="orthogonal")
        self.b = self.add_weight(shape=(gates,), name="b", initializer="zeros")
        self.kernel_norm.build((None, gates))
        self.recurrent_norm.build((None, gates))
        self.state_norm.build((None, self.units))

    def call(self, x: Any, states: list[Any], training: bool = False) -> tuple[Any, list[Any]]:
        """Compute one timestep."""
        h, c = states
        z = self.kernel_norm(keras.ops.matmul(x, self.W))
        z = z + self.recurrent_norm(keras.ops.matmul(h, self.U)) + self.b
        i, f, g, o = keras.ops.split(z, 4, axis=-1)
        c = keras.ops.sigmoid(f) * c + keras.ops.sigmoid(i) * keras.ops.tanh(g)
        h = keras.ops.sigmoid(o) * keras.ops.tanh(self.state_norm(c))
        return h, [h, c]


RECURRENT: dict[str, Callable[..., keras.layers.Layer]] = {
    settings.LN_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(s.units, **k),
    settings.UNCOMPILED: lambda s, **k: keras_norm.LayerNormLSTM(s.units, compiled=False, **k),
    settings.LN_GRU: lambda s, **k: keras_norm.LayerNormGRU(s.units, **k),
    settings.BN_LSTM: lambda s, **k: keras_norm.BatchNormLSTM(s.units, max_timesteps=s.time, **k),
    settings.RMS_LSTM: lambda s, **k: keras_norm.NormLSTM(
        s.units, norm=keras_norm.RMSNormalization(), **k
    ),
    settings.NO_NORM: lambda s, **k: keras_norm.NormLSTM(s.units, norm=None, **k),
    settings.KERAS_LSTM: lambda s, **k: keras.layers.LSTM(s.units, **k),
    settings.KERAS_JIT: lambda s, **k: keras.layers.LSTM(s.units, **k),
    settings.KERAS_STATIC: lambda s, **k: keras.layers.LSTM(s.units, **k),
    settings.KERAS_GRU: lambda s, **k: keras.layers.GRU(s.units, **k),
    settings.RNN_CELL: lambda s, **k: keras.layers.RNN(LayerNormCell(s.units), **k),
    settings.OWN_CELL: lambda s, **k: keras.layers.RNN(keras_norm.LayerNormLSTMCell(s.units), **k),
}


def recurrent_layer(name: str, shape: Shape, return_sequences: bool = True) -> keras.layers.Layer:
    """Create the recurrent layer of a name."""
    return RECURRENT[name](shape, return_sequences=return_sequences)


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
    dy = normal(*layer.compute_output_shape(x.shape))

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
