"""LSTM with normalization inside."""

from typing import Any, ClassVar

import keras
from keras import ops
from keras.activations import sigmoid, tanh

from keras_norm.ops.projection import project
from keras_norm.rnn.cell import Norm, NormCell, Weights
from keras_norm.rnn.layer import CellLayer
from keras_norm.rnn.presets import BatchNormPreset, LayerNormPreset

GATES = ("input", "forget", "cell", "output")


@keras.saving.register_keras_serializable(package="keras_norm")
class NormLSTMCell(NormCell, keras.layers.LSTMCell):
    """One step of an LSTM with a norm of your choice inside.

    ::

        i, f, g, o = kernel_norm(W x_t) + recurrent_norm(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(state_norm(c))

    s is the sigmoid; c itself is carried on, not state_norm(c). With `norm=None` it is
    `keras.layers.LSTMCell`.

    Args:
        units: size of h and c.
        norm: a normalization layer, copied into each slot (`kernel_norm` and `recurrent_norm` over
            all 4 * units, `state_norm` over units); a dict from slots to layers, where a slot left
            out has no norm; or None.
        norm_form: "separate" as above, or "joint": each gate is gate_norm(W x_t + U h) + b with the
            slots `input_norm`, `forget_norm`, `cell_norm`, `output_norm` over units, and c has no
            norm. TFLite's fused LSTM computes the joint form.
        normalize_carry: carry state_norm(c), as TensorFlow Addons' cell did and the paper does not.
        *args: as `**kwargs`, in Keras' order.
        **kwargs: every argument of `keras.layers.LSTMCell`. Under a norm of rows
            the candidate's bias starts from random numbers: see `CandidateNormal`.

    Call arguments:
        inputs: (batch, features).
        states: h and c, each (batch, units); with statistics of every timestep also a counter of
            the timesteps (batch, 2), zeros at the start. keras.layers.RNN evaluates a cell once
            more on its first timestep, so that row 0 of such statistics moves more than once a
            batch there, and it hides the mask; `NormLSTM` has neither flaw.
        training: whether dropout and batch statistics are on.

    Weights:
        kernel, recurrent_kernel, bias, then each slot's own.

    Raises:
        TypeError: `norm` is no layer, or an argument is unknown, missing or given twice.
        ValueError: a slot that the cell does not have, a norm over another axis than the last,
            another `norm_form`.

    Example:
    >>> cell = NormLSTMCell(8, norm=RMSNormalization())
    >>> keras.layers.RNN(cell)(np.zeros((2, 5, 3))).shape
    TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    SLOTS: ClassVar = {"kernel_norm": 4, "recurrent_norm": 4, "state_norm": 1}
    JOINT_SLOTS: ClassVar = {f"{gate}_norm": 1 for gate in GATES}
    CANDIDATE: ClassVar = -2

    def __init__(
        self,
        units: int,
        norm: Any = None,
        *args: Any,
        norm_form: str = "separate",
        normalize_carry: bool = False,
        **kwargs: Any,
    ) -> None:
        if norm_form not in ("separate", "joint"):
            raise ValueError(
                f"norm_form must be 'separate' or 'joint'. Received: norm_form={norm_form!r}."
            )
        if norm_form == "joint" and normalize_carry:
            raise ValueError(
                "normalize_carry=True needs a norm of c, which norm_form='joint' lacks. Choose one."
            )
        slots = self.JOINT_SLOTS if norm_form == "joint" else self.SLOTS
        super().__init__(units, norm, slots, *args, **kwargs)
        self.norm_form = norm_form
        self.normalize_carry = normalize_carry

    def step(
        self, weights: Weights, x: Any, states: list[Any], dropout: list[Any], norm: Norm
    ) -> list[Any]:
        """The states after the step."""
        h, c = states
        s, u = self.recurrent_activation, project(h, weights.recurrent_kernel, dropout)
        if self.norm_form == "joint":
            summed = zip(GATES, ops.split(x + u, 4, axis=-1), strict=True)
            gates = [norm(f"{name}_norm", z) for name, z in summed]
            if weights.bias is not None:
                gates = [z + b for z, b in zip(gates, ops.split(weights.bias, 4), strict=True)]
        else:
            gates = ops.split(x + norm("recurrent_norm", u), 4, axis=-1)
        i, f, g, o = gates
        c = s(f) * c + s(i) * self.activation(g)
        normalized = norm("state_norm", c)
        return [s(o) * self.activation(normalized), normalized if self.normalize_carry else c]

    def gradient_cell(self) -> str | None:
        """The joint form and a normalized carry have no gradient by hand."""
        usual = (self.activation, self.recurrent_activation) == (tanh, sigmoid)
        covered = usual and self.norm_form == "separate" and not self.normalize_carry
        return "lstm" if covered else None


@keras.saving.register_keras_serializable(package="keras_norm")
class NormLSTM(CellLayer):
    """LSTM over sequences, with a norm of your choice inside.

    Takes the arguments of `NormLSTMCell` and of `keras.layers.LSTM`, and with `norm=None` computes
    what the latter computes. For the equations, and what is raised, see `NormLSTMCell`.

    Args:
        units: size of the state and of the output.
        norm: a normalization layer, a dict from slots to layers, or None.
        **kwargs: `norm_form` and `normalize_carry`; every argument of `keras.layers.LSTM`.

    Call arguments:
        sequences: (batch, time, features).
        initial_state: h and c, each (batch, units); zeros by default.
        mask: bool (batch, time), True where a timestep counts.
        training: whether dropout and batch statistics are on.

    Example:
    >>> layer = NormLSTM(8, norm=LayerNormalization(), return_sequences=True)
    >>> layer(np.zeros((2, 5, 3))).shape
    TensorShape([2, 5, 8])
    """

    cell_class: type[NormCell] = NormLSTMCell
    keras_class = keras.layers.LSTM


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormLSTMCell(LayerNormPreset, NormLSTMCell):
    """`NormLSTMCell` with `LayerNormalization` in every slot (Ba et al. 2016)."""


@keras.saving.register_keras_serializable(package="keras_norm")
class LayerNormLSTM(NormLSTM):
    """`NormLSTM` with `LayerNormalization` in every slot (Ba et al. 2016).

    Args:
        *args: of `keras.layers.LSTM`, in its order.
        epsilon: number that the norms add to the variance, 1e-5 by default.
        **kwargs: as for `NormLSTM`, without `norm`.

    Example:
    >>> LayerNormLSTM(8, "relu", epsilon=1e-3, return_state=True)(np.zeros((2, 5, 3)))[2].shape
    TensorShape([2, 8])
    """

    cell_class = LayerNormLSTMCell


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormLSTMCell(BatchNormPreset, NormLSTMCell):
    """`NormLSTMCell` with batch statistics of every timestep (Cooijmans et al. 2016, eq. 6-8)."""


@keras.saving.register_keras_serializable(package="keras_norm")
class BatchNormLSTM(NormLSTM):
    """`NormLSTM` with batch statistics of every timestep (Cooijmans et al. 2016, eq. 6-8).

    gamma starts at 0.1; only the state norm has a beta. Timesteps count from 0 in every call: a
    sequence cut in pieces, by `stateful=True` or by `initial_state`, has the statistics of its
    first timesteps in every piece.

    The moving statistics lag behind the weights of a recurrence: `keras_norm.recalibrate` a trained
    model before it is exported.

    Args:
        units: size of the state and of the output.
        max_timesteps: number of timesteps with statistics of their own; later ones share the last.
        momentum: weight of the past in the moving statistics; None averages all batches.
        epsilon: number added to the variance.
        debias: whether the moving statistics are right from the first update on.
        **kwargs: as for `NormLSTM`, without `norm`.

    Example:
    >>> BatchNormLSTM(8, max_timesteps=5)(np.zeros((2, 5, 3))).shape
    TensorShape([2, 8])
    """

    cell_class = BatchNormLSTMCell
