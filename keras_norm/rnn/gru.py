"""GRU with normalization inside."""

from typing import Any, ClassVar

import keras
from keras import ops
from keras.activations import sigmoid, tanh

from keras_norm.ops.projection import project
from keras_norm.rnn.cell import Norm, NormCell, Weights
from keras_norm.rnn.layer import CellLayer
from keras_norm.rnn.presets import BatchNormPreset, LayerNormPreset


@keras.saving.register_keras_serializable(package="keras_norm")
class NormGRUCell(NormCell, keras.layers.GRUCell):
    """One step of a GRU with a norm of your choice inside.

    ::

        z, r = s(kernel_norm((W x_t)_zr) + recurrent_norm((U h)_zr) + b_zr)
        n = tanh(kernel_candidate_norm((W x_t)_h) + r * recurrent_candidate_norm((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The reset gate acts after the norm, and there is one bias. With `norm=None` it
    is `keras.layers.GRUCell`, with that layer's two biases, or its `reset_after=False`.

    Args:
        units: size of h.
        norm: a normalization layer, copied into each slot (`kernel_norm` and `recurrent_norm` over
            2 * units, `kernel_candidate_norm` and `recurrent_candidate_norm` over units); a dict
            from slots to layers, where a slot left out has no norm; or None.
        *args: as `**kwargs`, in Keras' order.
        **kwargs: every argument of `keras.layers.GRUCell`. Under a norm of rows
            the candidate's bias starts from random numbers: see `CandidateNormal`.

    Call arguments, weights and errors are those of `NormLSTMCell`, with the one state h.

    Raises:
        ValueError: a norm together with `reset_after=False`.

    Example:
    >>> keras.layers.RNN(NormGRUCell(8, LayerNormalization()))(np.zeros((2, 5, 3))).shape
    TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement; z and
        1 - z change places, as in Keras.
    """

    reset_after: bool
    SLOTS: ClassVar = {
        "kernel_norm": 2,
        "kernel_candidate_norm": 1,
        "recurrent_norm": 2,
        "recurrent_candidate_norm": 1,
    }

    def __init__(self, units: int, norm: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, norm, self.SLOTS, *args, **kwargs)
        if self.norm is not None and not self.reset_after:
            raise ValueError(
                "With a norm the reset gate acts after it (Ba et al. 2016, supplement). Received "
                "reset_after=False: leave it out, or take NormGRU without a norm."
            )

    def build(self, input_shape: Any) -> None:
        """Keras' weights, but one bias (3 * units,) where there are norms."""
        # Of what it builds, Keras' cell asks `reset_after` for the shape of the bias alone.
        after, self.reset_after = self.reset_after, self.reset_after and self.norm is None
        try:
            super().build(input_shape)
        finally:
            self.reset_after = after

    def step_weights(self) -> Weights:
        """The weights, of which only Keras' `reset_after=True` has a bias of U h."""
        biases = [self.bias]
        if self.bias is not None and len(self.bias.shape) == 2:
            biases = [self.bias[0], self.bias[1]]
        return Weights(self.kernel, self.recurrent_kernel, *biases)

    def project_inputs(self, weights: Weights, inputs: Any, dropout: list[Any], norm: Norm) -> Any:
        """The normalized W x, and the bias (Keras' input bias without norms)."""
        x = project(inputs, weights.kernel, dropout)
        if self.norm is not None:
            zr, candidate = x[..., : 2 * self.units], x[..., 2 * self.units :]
            x = ops.concatenate(
                [norm("kernel_norm", zr), norm("kernel_candidate_norm", candidate)], axis=-1
            )
        return x if weights.bias is None else x + weights.bias

    def step(
        self, weights: Weights, x: Any, states: list[Any], dropout: list[Any], norm: Norm
    ) -> list[Any]:
        """The state after the step."""
        h, n, kernel = states[0], 2 * self.units, weights.recurrent_kernel
        if self.reset_after:
            u = project(h, kernel, dropout)
            u = u if weights.recurrent_bias is None else u + weights.recurrent_bias
            zr = norm("recurrent_norm", u[:, :n])
        else:  # without norms
            zr = project(h, kernel[:, :n], dropout[:2])
        z, r = ops.split(self.recurrent_activation(x[:, :n] + zr), 2, axis=-1)
        if self.reset_after:
            candidate = r * norm("recurrent_candidate_norm", u[:, n:])
        else:
            candidate = project(r * h, kernel[:, n:], dropout[2:])
        return [z * h + (1.0 - z) * self.activation(x[:, n:] + candidate)]

    def gradient_cell(self) -> str | None:
        """The gradient by hand resets after the product with U."""
        usual = (self.activation, self.recurrent_activation) == (tanh, sigmoid)
        return "gru" if usual and self.reset_after else None


@keras.saving.register_keras_serializable(package="keras_norm")
class NormGRU(CellLayer):
    """GRU over sequences, with a norm of your choice inside.

    Takes the arguments of `NormGRUCell` and of `keras.layers.GRU`, and with `norm=None` computes
    what the latter computes.

    Example:
    >>> NormGRU(8, norm=RMSNormalization(), return_sequences=True)(np.zeros((2, 5, 3))).shape
    TensorShape([2, 5, 8])
    """

    cell_class: type[NormCell] = NormGRUCell
    keras_class = keras.layers.GRU


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormGRUCell(LayerNormPreset, NormGRUCell):
    """`NormGRUCell` with `LayerNormalization` in every slot; see `LayerNormLSTM`."""


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormGRU(NormGRU):
    """`NormGRU` with `LayerNormalization` in every slot; arguments as of `LayerNormLSTM`."""

    cell_class = LayerNormGRUCell


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormGRUCell(BatchNormPreset, NormGRUCell):
    """`NormGRUCell` with batch statistics of every timestep; see `BatchNormLSTM`."""


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormGRU(NormGRU):
    """`NormGRU` with batch statistics of every timestep; arguments as of `BatchNormLSTM`."""

    cell_class = BatchNormGRUCell
