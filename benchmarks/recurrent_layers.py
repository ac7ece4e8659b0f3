"""The measured recurrent layers, on every backend."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import keras_norm
from benchmarks import settings
from benchmarks.settings import Shape


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


@keras.saving.register_keras_serializable(package="benchmarks")
class PackedRows(keras.layers.Layer):
    """Run a recurrent layer on rows of packed sequences: some timesteps begin a new sequence.

    The mean length of a sequence is `MEAN_LENGTH`, and all rows have equal lengths. The resets are
    a variable, so a compiler cannot treat them as constants.

    Args:
        layer: the recurrent layer.
        **kwargs: arguments of `keras.layers.Layer`.
    """

    MEAN_LENGTH = 20

    def __init__(self, layer: keras.layers.RNN, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Build the recurrent layer, and draw the resets of inputs (batch, time, features)."""
        self.layer.build(input_shape)
        begins = np.random.default_rng(0).random((1, input_shape[1])) < 1 / self.MEAN_LENGTH
        self.resets = self.add_weight(shape=begins.shape, dtype="bool", trainable=False)
        self.resets.assign(begins)

    def call(self, x: Any, training: bool = False) -> Any:
        """Run the recurrent layer with the resets."""
        return self.layer(x, resets=self.resets, training=training)

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> Any:
        """Return the output shape of the recurrent layer."""
        return self.layer.compute_output_shape(input_shape)


RECURRENT: dict[str, Callable[..., keras.layers.Layer]] = {
    settings.LN_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(s.units, **k),
    settings.UNCOMPILED: lambda s, **k: keras_norm.LayerNormLSTM(s.units, compiled=False, **k),
    settings.LN_GRU: lambda s, **k: keras_norm.LayerNormGRU(s.units, **k),
    settings.JOINT_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(s.units, norm_form="joint", **k),
    settings.JOINT_ALL_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(
        s.units, norm_form="joint_all", **k
    ),
    settings.JOINT_ALL_GRU: lambda s, **k: keras_norm.LayerNormGRU(
        s.units, norm_form="joint_all", **k
    ),
    settings.PACKED_LSTM: lambda s, **k: PackedRows(keras_norm.LayerNormLSTM(s.units, **k)),
    settings.PROJECTED_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(
        s.units, projection_units=max(s.units // 2, 3), **k
    ),
    settings.PEEPHOLE_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(s.units, peepholes=True, **k),
    settings.CLIPPED_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(s.units, cell_clip=3.0, **k),
    settings.ZONEOUT_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(
        s.units, zoneout=0.1, cell_zoneout=0.1, **k
    ),
    settings.DROPPED_LSTM: lambda s, **k: keras_norm.LayerNormLSTM(
        s.units, candidate_dropout=0.2, **k
    ),
    settings.BN_LSTM: lambda s, **k: keras_norm.BatchNormLSTM(s.units, max_timesteps=s.time, **k),
    settings.RMS_LSTM: lambda s, **k: keras_norm.NormLSTM(
        s.units, norm=keras_norm.RMSNormalization(), **k
    ),
    settings.NO_NORM: lambda s, **k: keras_norm.NormLSTM(s.units, norm=None, **k),
    settings.KERAS_LSTM: lambda s, **k: keras.layers.LSTM(s.units, **k),
    settings.KERAS_JIT: lambda s, **k: keras.layers.LSTM(s.units, **k),
    settings.KERAS_STATIC: lambda s, **k: keras.layers.LSTM(s.units, **k),
    settings.KERAS_NO_CUDNN: lambda s, **k: keras.layers.LSTM(s.units, use_cudnn=False, **k),
    settings.KERAS_GRU: lambda s, **k: keras.layers.GRU(s.units, **k),
    settings.RNN_CELL: lambda s, **k: keras.layers.RNN(LayerNormCell(s.units), **k),
    settings.OWN_CELL: lambda s, **k: keras.layers.RNN(keras_norm.LayerNormLSTMCell(s.units), **k),
}


def recurrent_layer(
    name: str, shape: Shape, return_sequences: bool = True, **options: Any
) -> keras.layers.Layer:
    """Create the recurrent layer of a name, with further arguments of the layer."""
    return RECURRENT[name](shape, return_sequences=return_sequences, **options)
