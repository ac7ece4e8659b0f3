"""GRU with normalization inside."""

import math
from functools import partial
from typing import Any, ClassVar

import keras
from keras import ops

from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.core.candidate_dropout import drop_candidate
from keras_norm.rnn.core.operations import gate_gradient, interpolate, project, side_by_side
from keras_norm.rnn.core.recurrence import (
    CANDIDATE,
    GATE,
    Activate,
    ApplyNorm,
    CellWeights,
    StepGradients,
    StepResult,
    Weights,
)
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.docstrings import documented_by_cell
from keras_norm.rnn.option_checks import require_bool, require_rate
from keras_norm.rnn.slots import NormArgument
from keras_norm.typing import Shape, Tensor, Tensors


@keras.saving.register_keras_serializable(package="keras_norm")
class NormGRUCell(NormCell, keras.layers.GRUCell):
    """Compute one step of a GRU with normalization inside.

    ::

        z, r = s(kernel_norm((W x_t)_zr) + recurrent_norm((U h)_zr) + b_zr)
        n = tanh(kernel_candidate_norm((W x_t)_h) + r * recurrent_candidate_norm((U h)_h) + b_h)
        h = z * h + (1 - z) * n

    s is the sigmoid. The norms of the gates z and r are over 2 * units together. The reset gate
    acts after the norm, and there is one bias.

    With `norm=None` the cell equals `keras.layers.GRUCell`: it has two biases, or
    `reset_after=False`. In a joint form it has one bias, and another equation than Keras.

    Args:
        units: size of h.
        norm: a normalization layer, copied into each slot (`kernel_norm`, `recurrent_norm`,
            `kernel_candidate_norm` and `recurrent_candidate_norm`); a dict from slots to layers; or
            None. A slot that is missing from the dict has no norm.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms z, r, a are
            norm(W x_t + U h) + b, and n = tanh(s(r) * a). "joint" has a norm for each gate, over
            units: `update_norm`, `reset_norm` and `candidate_norm`. "joint_all" has one norm over
            all 3 * units together, `joint_norm`, as the GRU of DreamerV2 (Hafner et al. 2021). Pass
            "joint_all" if the size of x carries information, because the norm of W x_t removes it.
        unit_update_bias: whether the initial bias of z is 1, as `unit_forget_bias` of an LSTM. The
            state then changes slowly at the start of training. Dreamer's update gate is 1 - z, with
            a bias of -1.
        candidate_dropout: probability p of dropout of the candidate. In training n is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.GRUCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.GRUCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h, (batch, units). With statistics per timestep, a timestep counter follows, as for
            `NormLSTMCell`.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, then the weights of each slot.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, an
            unknown `norm_form`, a norm or a joint form together with `reset_after=False`, or
            `unit_update_bias=True` together with `use_bias=False`.

    Example:
        >>> keras.layers.RNN(NormGRUCell(8, LayerNormalization()))(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, supplement. As
        in Keras, z and 1 - z are swapped.
    """

    reset_after: bool
    GATES: ClassVar = ("update", "reset", "candidate")
    ADDED_SLOTS: ClassVar = (*NormCell.ADDED_SLOTS, "recurrent_norm")
    SLOTS: ClassVar = {
        "kernel_norm": 2,
        "kernel_candidate_norm": 1,
        "recurrent_norm": 2,
        "recurrent_candidate_norm": 1,
    }

    def __init__(
        self,
        units: int,
        norm: NormArgument = None,
        *args: Any,
        unit_update_bias: bool = False,
        candidate_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, norm, *args, **kwargs)
        self.unit_update_bias = require_bool("unit_update_bias", unit_update_bias)
        self.candidate_dropout = require_rate("candidate_dropout", candidate_dropout)
        if not (self.has_keras_gates() or self.reset_after):
            raise ValueError(
                "A GRU with a norm or a joint form needs reset_after=True: its reset gate acts "
                "after the norm (Ba et al. 2016, supplement). Received: reset_after=False, and "
                f"norm_form={self.norm_form!r}. Leave reset_after at True, or use NormGRU with "
                "norm=None and norm_form='separate'."
            )
        if unit_update_bias and not self.use_bias:
            raise ValueError(
                "unit_update_bias=True sets the initial value of a bias, so the cell needs a bias. "
                f"Received: unit_update_bias={unit_update_bias!r} and use_bias=False. Leave "
                "use_bias at True."
            )

    def has_keras_gates(self) -> bool:
        """Return whether the gates equal those of keras.layers.GRUCell.

        They are equal if the cell has no norms and `norm_form="separate"`.
        """
        return super().has_keras_gates() and self.norm_form == "separate"

    def build(self, input_shape: Shape) -> None:
        """Create the weights of the cell; a cell with norms has one bias in place of Keras' two.

        The one bias has the shape (3 * units,). Two biases have the shape (2, 3 * units).
        """
        # Keras' `build` creates two biases if `reset_after` is True, and uses `reset_after` for
        # nothing else. So set it to False during the `build` of a cell with norms.
        reset_after, initializer = self.reset_after, self.bias_initializer
        self.reset_after = reset_after and self.has_keras_gates()
        if self.unit_update_bias:
            self.bias_initializer = partial(_initialize_bias, initializer, self.units)
        try:
            super().build(input_shape)
        finally:
            self.reset_after, self.bias_initializer = reset_after, initializer

    def step_weights(self) -> Weights:
        """Return the kernels and the biases that `project_inputs` and `step` use.

        The recurrent bias exists only with `reset_after=True` and without a norm.
        """
        biases = [self.bias]
        if self.bias is not None and len(self.bias.shape) == 2:
            biases = [self.bias[0], self.bias[1]]
        return Weights(self.kernel, self.recurrent_kernel, *biases)

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
        z, r = activate(x[0] + u[0], (GATE, GATE))
        (n,) = activate(x[1] + (u[1](r) if callable(u[1]) else r * u[1]), (CANDIDATE,))
        h = interpolate(z, states[0], drop_candidate(n, weights))
        return StepResult([h], [z, r, n], [u[1]])

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
        z, r, n = gates
        (u,), (dh,) = residuals, d_states
        dn = gate_gradient(CANDIDATE, n, drop_candidate(dh * (1.0 - z), weights))
        dz = gate_gradient(GATE, z, dh * (old[0] - drop_candidate(n, weights)))
        dr = gate_gradient(GATE, r, dn * u)
        dzr = side_by_side([dz, dr])
        return StepGradients([dzr, dn], [dzr, dn * r], [dh * z], {})

    def step(
        self, weights: Weights, x: Tensor, states: Tensors, dropout: Tensors, norm: ApplyNorm
    ) -> Tensors:
        """Compute the new state h; see `NormCell.step`."""
        if self.reset_after:
            return super().step(weights, x, states, dropout, norm)
        # With `reset_after=False` the cell has no norms.
        h, n, kernel = states[0], 2 * self.units, weights.recurrent_kernel
        us = [
            project(h, kernel[:, :n], dropout[:2]),
            lambda r: project(r * h, kernel[:, n:], dropout[2:]),
        ]
        xs = [x[:, :n], x[:, n:]]
        return self.forward_step(
            xs, us, states, self.read_by_step(weights), self.activate, norm
        ).states

    def has_custom_gradient(self) -> bool:
        """Return whether `backward_step` supports the options: not with `reset_after=False`."""
        return super().has_custom_gradient() and self.reset_after


def _initialize_bias(
    initializer: keras.initializers.Initializer, units: int, shape: tuple[int, ...], dtype: str
) -> Tensor:
    """Initialize a GRU bias: 1 for the update gate, values of `initializer` for the other gates."""
    columns = ops.reshape(ops.arange(math.prod(shape)), shape)
    return ops.where(columns < units, 1.0, initializer(shape, dtype))


@keras.saving.register_keras_serializable(package="keras_norm")
@documented_by_cell
class NormGRU(CellLayer):
    """Run a GRU with normalization inside over sequences."""

    cell_class: type[NormCell] = NormGRUCell
    keras_class = keras.layers.GRU
