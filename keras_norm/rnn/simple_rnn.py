"""SimpleRNN with normalization inside."""

from typing import ClassVar

import keras

from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.core.operations import gate_gradient
from keras_norm.rnn.core.recurrence import (
    CANDIDATE,
    Activate,
    ApplyNorm,
    CellWeights,
    StepGradients,
    StepResult,
)
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.docstrings import documented_by_cell
from keras_norm.typing import Tensors


@keras.saving.register_keras_serializable(package="keras_norm")
class NormSimpleRNNCell(NormCell, keras.layers.SimpleRNNCell):
    """Compute one step of a SimpleRNN with normalization inside.

    ::

        h = tanh(kernel_norm(W x_t) + recurrent_norm(U h) + b)

    With `norm=None` the cell equals `keras.layers.SimpleRNNCell`.

    Args:
        units: size of h.
        norm: a normalization layer, copied into each slot (`kernel_norm` and `recurrent_norm`); a
            dict from slots to layers; or None. A slot that is missing from the dict has no norm.
        norm_form: "separate", as above, or one norm of the sum, h = tanh(norm(W x_t + U h) + b):
            `candidate_norm` with "joint", `joint_norm` with "joint_all".
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.SimpleRNNCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.SimpleRNNCell`. With a per-sample norm, the bias is by
            default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, or
            an unknown `norm_form`.

    Example:
        >>> keras.layers.RNN(NormSimpleRNNCell(8, LayerNormalization()))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20, without the
        gates. Eq. 4, in section 3.1, is the joint form.
    """

    GATES: ClassVar = ("candidate",)
    SLOTS: ClassVar = {"kernel_norm": 1, "recurrent_norm": 1}
    ADDED_SLOTS: ClassVar = (*NormCell.ADDED_SLOTS, "recurrent_norm")

    @staticmethod
    def forward_step(
        x: Tensors,
        u: Tensors,
        states: Tensors,
        weights: CellWeights,
        activate: Activate,
        norm: ApplyNorm,
    ) -> StepResult:
        """Compute the new state h; see `NormCell.forward_step`."""
        (h,) = activate(x[0] + u[0], (CANDIDATE,))
        return StepResult([h], [h], [])

    @staticmethod
    def backward_step(
        gates: Tensors,
        residuals: Tensors,
        old: Tensors,
        new: Tensors,
        d_states: Tensors,
        weights: CellWeights,
        norm: StepNorms,
    ) -> StepGradients:
        """Compute the gradients of a step; see `NormCell.backward_step`."""
        (h,) = gates
        dz = gate_gradient(CANDIDATE, h, d_states[0])
        return StepGradients([dz], [dz], [None], {})


@keras.saving.register_keras_serializable(package="keras_norm")
@documented_by_cell
class NormSimpleRNN(CellLayer):
    """Run a SimpleRNN with normalization inside over sequences."""

    cell_class: type[NormCell] = NormSimpleRNNCell
    keras_class = keras.layers.SimpleRNN
