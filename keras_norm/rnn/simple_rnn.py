"""Simple recurrence with normalization inside."""

from typing import Any, ClassVar

import keras
from keras.activations import tanh

from keras_norm.ops.projection import project
from keras_norm.rnn.cell import Norm, NormCell, Weights
from keras_norm.rnn.layer import CellLayer
from keras_norm.rnn.presets import BatchNormPreset, LayerNormPreset


@keras.saving.register_keras_serializable(package="keras_norm")
class NormSimpleRNNCell(NormCell, keras.layers.SimpleRNNCell):
    """One step of a simple recurrence with a norm of your choice inside.

    ::

        h = tanh(kernel_norm(W x_t) + recurrent_norm(U h) + b)

    With `norm=None` it is `keras.layers.SimpleRNNCell`.

    Args:
        units: size of h.
        norm: a normalization layer, copied into each slot (`kernel_norm` and `recurrent_norm`, over
            units); a dict from slots to layers, where a slot left out has no norm; or None.
        *args: as `**kwargs`, in Keras' order.
        **kwargs: every argument of `keras.layers.SimpleRNNCell`. Under a norm of rows
            the candidate's bias starts from random numbers: see `CandidateNormal`.

    Call arguments, weights and errors are those of `NormLSTMCell`, with the one state h.

    Example:
    >>> keras.layers.RNN(NormSimpleRNNCell(8, LayerNormalization()))(np.zeros((2, 5, 3))).shape
    TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20, without the
        gates; their section 3.1, eq. 4, has one norm, of the sum W x_t + U h.
    """

    SLOTS: ClassVar = {"kernel_norm": 1, "recurrent_norm": 1}

    def __init__(self, units: int, norm: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, norm, self.SLOTS, *args, **kwargs)

    def step(
        self, weights: Weights, x: Any, states: list[Any], dropout: list[Any], norm: Norm
    ) -> list[Any]:
        """The state after the step."""
        u = project(states[0], weights.recurrent_kernel, dropout)
        return [self.activation(x + norm("recurrent_norm", u))]

    def gradient_cell(self) -> str | None:
        """The gradient by hand is that of tanh."""
        return "simple_rnn" if self.activation is tanh else None


@keras.saving.register_keras_serializable(package="keras_norm")
class NormSimpleRNN(CellLayer):
    """Simple recurrence over sequences, with a norm of your choice inside.

    Takes the arguments of `NormSimpleRNNCell` and of `keras.layers.SimpleRNN`, and with `norm=None`
    computes what the latter computes.

    Example:
    >>> NormSimpleRNN(8, norm=LayerNormalization())(np.zeros((2, 5, 3))).shape
    TensorShape([2, 8])
    """

    cell_class: type[NormCell] = NormSimpleRNNCell
    keras_class = keras.layers.SimpleRNN


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormSimpleRNNCell(LayerNormPreset, NormSimpleRNNCell):
    """`NormSimpleRNNCell` with `LayerNormalization` in every slot; see `LayerNormLSTM`."""


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormSimpleRNN(NormSimpleRNN):
    """`NormSimpleRNN` with `LayerNormalization` in every slot; arguments as of `LayerNormLSTM`."""

    cell_class = LayerNormSimpleRNNCell


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormSimpleRNNCell(BatchNormPreset, NormSimpleRNNCell):
    """`NormSimpleRNNCell` with batch statistics of every timestep; see `BatchNormLSTM`."""


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormSimpleRNN(NormSimpleRNN):
    """`NormSimpleRNN` with batch statistics of every timestep; arguments as of `BatchNormLSTM`."""

    cell_class = BatchNormSimpleRNNCell
