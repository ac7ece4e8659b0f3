"""GRU with normalization inside."""

from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops
from keras.activations import sigmoid, tanh

from keras_norm.ops.gru import gru_step, gru_step_reset_before
from keras_norm.ops.projection import project
from keras_norm.rnn.cell import Layout, Norm, NormCell, Weights
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

    SLOTS: ClassVar = {
        "kernel_norm": 2,
        "kernel_candidate_norm": 1,
        "recurrent_norm": 2,
        "recurrent_candidate_norm": 1,
    }

    def __init__(self, units: int, norm: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, norm, self.SLOTS, *args, **kwargs)
        if norm is not None and not self.reset_after:
            raise ValueError(
                "With a norm the reset gate acts after it (Ba et al. 2016, supplement). Received "
                "reset_after=False: leave it out, or take NormGRU without a norm."
            )

    def build_weights(self, input_shape: Any) -> None:
        """Keras' weights, but one bias (3 * units,) where there are norms."""
        if self.norm is None:
            super().build_weights(input_shape)
            return
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], 3 * self.units),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel",
            shape=(self.units, 3 * self.units),
            initializer=self.recurrent_initializer,
            regularizer=self.recurrent_regularizer,
            constraint=self.recurrent_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(3 * self.units,),
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def step_weights(self) -> Weights:
        """The weights, of which only Keras' `reset_after=True` has a bias of U h."""
        biases = [self.bias]
        if self.bias is not None and len(self.bias.shape) == 2:
            biases = [self.bias[0], self.bias[1]]
        return Weights(self.kernel, self.recurrent_kernel, *biases)

    def project_inputs(self, weights: Weights, inputs: Any, dropout_masks: Any, norm: Norm) -> Any:
        """The normalized W x, and the bias (Keras' input bias without norms)."""
        x = project(inputs, weights.kernel, dropout_masks)
        if self.norm is not None:
            zr, candidate = x[..., : 2 * self.units], x[..., 2 * self.units :]
            x = ops.concatenate(
                [norm("kernel_norm", zr), norm("kernel_candidate_norm", candidate)], axis=-1
            )
        return x if weights.bias is None else x + weights.bias

    def step(
        self, weights: Weights, x: Any, states: list[Any], dropout_masks: Any, norm: Norm
    ) -> list[Any]:
        """The state after the step."""
        kernel, bias = weights.recurrent_kernel, weights.recurrent_bias
        activations = (self.activation, self.recurrent_activation)
        if not self.reset_after:
            kernels = kernel[:, : 2 * self.units], kernel[:, 2 * self.units :]
            masks = (None, None)
            if dropout_masks is not None:
                masks = dropout_masks[:2], dropout_masks[2]
            recur_zr, recur_h = (
                partial(project, kernel=k, masks=m) for k, m in zip(kernels, masks, strict=True)
            )
            return [gru_step_reset_before(x, states[0], recur_zr, recur_h, *activations)]

        def recur(h: Any) -> Any:
            u = project(h, kernel, dropout_masks)
            return u if bias is None else u + bias

        return [gru_step(x, states[0], recur, norm, *activations)]

    def layout(self) -> Layout | None:
        """The gradient by hand resets after the product with U."""
        usual = (self.activation, self.recurrent_activation) == (tanh, sigmoid)
        if not usual or not self.reset_after:
            return None
        kernel_slots = ("kernel_norm", "kernel_candidate_norm")
        recurrent_slots = ("recurrent_norm", "recurrent_candidate_norm")
        return Layout("gru", kernel_slots, recurrent_slots)


@keras.saving.register_keras_serializable(package="keras_norm")
class NormGRU(CellLayer):
    """GRU over sequences, with a norm of your choice inside.

    Takes the arguments of `NormGRUCell` and of `keras.layers.GRU`, and with `norm=None` computes
    what the latter computes.

    Args:
        units: size of the state and of the output.
        norm: a normalization layer, a dict from slots to layers, or None.
        **kwargs: every argument of `keras.layers.GRU`.

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
