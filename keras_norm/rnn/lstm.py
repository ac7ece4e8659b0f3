"""LSTM with normalization inside."""

from typing import Any, ClassVar

import keras

from keras_norm.rnn.cell import NormCell
from keras_norm.rnn.cell_layer import CellLayer
from keras_norm.rnn.core.candidate_dropout import drop_candidate
from keras_norm.rnn.core.lstm_options import (
    CELL_CLIP,
    FORGET,
    INPUT,
    OUTPUT,
    PEEPHOLES,
    PROJECTION_KERNEL,
    PROJECTION_SLOT,
    clip_gradient,
    clip_state,
    peephole_gradients,
    project_output,
    projection_gradient,
    read_old_state,
)
from keras_norm.rnn.core.operations import activate, gate_gradient, side_by_side
from keras_norm.rnn.core.recurrence import (
    CANDIDATE,
    GATE,
    Activate,
    ApplyNorm,
    CellWeights,
    StepGradients,
    StepResult,
    WeightGradients,
    Weights,
)
from keras_norm.rnn.core.step_norms import StepNorms
from keras_norm.rnn.docstrings import documented_by_cell
from keras_norm.rnn.option_checks import require_bool, require_bound, require_rate, require_size
from keras_norm.rnn.slots import NormArgument
from keras_norm.typing import Shape, Tensor, Tensors


@keras.saving.register_keras_serializable(package="keras_norm")
class NormLSTMCell(NormCell, keras.layers.LSTMCell):
    """Compute one step of an LSTM with normalization inside.

    ::

        i, f, g, o = kernel_norm(W x_t) + recurrent_norm(U h) + b
        c = s(f) * c + s(i) * tanh(g)
        h = s(o) * tanh(state_norm(c))

    s is the sigmoid. The norms of W x_t and of U h are over all 4 * units together. The next step
    receives c, not state_norm(c).

    With `norm=None` the cell equals `keras.layers.LSTMCell`, in every `norm_form`.

    Args:
        units: size of h and c.
        norm: a normalization layer, copied into each slot (`kernel_norm`, `recurrent_norm` and
            `state_norm`); a dict from slots to layers; or None. A slot that is missing from the
            dict has no norm.
        norm_form: "separate", as above, "joint" or "joint_all". In the joint forms i, f, g, o are
            norm(W x_t + U h) + b, and c has no norm. "joint" has a norm for each gate, over units:
            `input_norm`, `forget_norm`, `cell_norm` and `output_norm`. "joint_all" has one norm
            over all 4 * units together, `joint_norm`. Pass "joint" if the size of x, such as an
            amplitude, carries information, because the norm of W x_t removes it.
        zoneout: probability that a unit of h keeps its value at a timestep in training. At
            inference h moves by the share 1 - `zoneout` (Krueger et al. 2016, arXiv 1606.01305).
        cell_zoneout: the same probability for c.
        candidate_dropout: probability p of dropout of the candidate. In training tanh(g) is
            multiplied by 0 or 1 / (1 - p), drawn for each unit and timestep (Semeniuta et al. 2016,
            arXiv 1603.05118). Unlike `recurrent_dropout` of h, it removes no stored value.
        projection_units: None, or the size of h = projection_norm(P (s(o) * tanh(state_norm(c)))).
            P is a matrix, and `projection_norm` a further slot of the separate form (Sak et al.
            2014, arXiv 1402.1128). c has the size `units`.
        peepholes: whether the gates read c. i and f then have the further terms p_i * c and p_f * c
            with the c before the step, and o the term p_o * c with the new c (Gers et al. 2002,
            "Learning Precise Timing with LSTM Recurrent Networks"). p_i, p_f and p_o (units,) are
            zeros before training.
        cell_clip: None, or the bound of c: c becomes min(max(c, -`cell_clip`), `cell_clip`) before
            `state_norm` and o read it, as in TensorFlow's `BlockLSTM`.
        normalize_carry: whether the next step receives state_norm(c), as in the cell of TensorFlow
            Addons, in place of c, as in the paper.
        learn_initial_state: whether the states before the first timestep are weights (units,), the
            same for all sequences. They are zeros before training.
        *args: arguments of `keras.layers.LSTMCell` after `units`, in their order.
        **kwargs: arguments of `keras.layers.LSTMCell`. With a per-sample norm, the candidate's bias
            is by default initialized from a normal distribution with deviation 1.

    Call arguments:
        inputs: (batch, features).
        states: h and c, each (batch, units). With statistics per timestep, a timestep counter
            (batch, 2) follows, which is zero before the first step. keras.layers.RNN calls a cell
            twice at the first timestep, so these statistics are updated twice there. It also hides
            the mask from the cell. Prefer `NormLSTM`, which has neither problem.
        training: whether to apply dropout and to use batch statistics.

    Weights:
        kernel, recurrent_kernel, bias, the learned initial states, the peepholes of i, f and o, the
        projection_kernel, then the weights of each slot.

    Raises:
        TypeError: `norm` is not a layer, or an argument is unknown, missing or repeated.
        ValueError: a slot that the cell does not have, a norm over an axis other than the last, an
            unknown `norm_form`, `normalize_carry` with a joint form, or an option out of its range.

    Example:
        >>> cell = NormLSTMCell(8, norm=RMSNormalization())
        >>> keras.layers.RNN(cell)(np.zeros((2, 5, 3))).shape
        TensorShape([2, 8])

    Reference:
        Ba, Kiros and Hinton, "Layer Normalization" (2016), arXiv 1607.06450, eq. 20-22.
    """

    SLOTS: ClassVar = {"kernel_norm": 4, "recurrent_norm": 4, "state_norm": 1}
    OPTION_SLOTS: ClassVar = (PROJECTION_SLOT,)
    ADDED_SLOTS: ClassVar = (*NormCell.ADDED_SLOTS, "recurrent_norm")
    GATES: ClassVar = ("input", "forget", "cell", "output")
    CANDIDATE: ClassVar = -2

    def __init__(
        self,
        units: int,
        norm: NormArgument = None,
        *args: Any,
        normalize_carry: bool = False,
        cell_zoneout: float = 0.0,
        candidate_dropout: float = 0.0,
        projection_units: int | None = None,
        peepholes: bool = False,
        cell_clip: float | None = None,
        **kwargs: Any,
    ) -> None:
        self.projection_units = require_size("projection_units", projection_units)
        super().__init__(units, norm, *args, **kwargs)
        if self.norm_form != "separate" and normalize_carry:
            raise ValueError(
                "The joint form has no norm of c, which normalize_carry=True needs. Received: "
                f"norm_form={self.norm_form!r}, normalize_carry=True. Leave normalize_carry at "
                "False, or set norm_form='separate'."
            )
        self.normalize_carry = require_bool("normalize_carry", normalize_carry)
        self.cell_zoneout = require_rate("cell_zoneout", cell_zoneout)
        self.candidate_dropout = require_rate("candidate_dropout", candidate_dropout)
        self.peepholes = require_bool("peepholes", peepholes)
        self.cell_clip = require_bound("cell_clip", cell_clip)

    def state_sizes(self, units: int) -> list[int]:
        """Return the sizes of h and c."""
        return [units if self.projection_units is None else self.projection_units, units]

    def slot_widths(self, units: int, norm_form: str) -> dict[str, int]:
        """Return the number of columns of each norm, with `projection_norm` if it exists."""
        widths = super().slot_widths(units, norm_form)
        if norm_form == "separate" and self.projection_units is not None:
            widths[PROJECTION_SLOT] = self.projection_units
        return widths

    def build(self, input_shape: Shape) -> None:
        """Create the weights of `NormCell`, then the peepholes and the kernel of the projection."""
        super().build(input_shape)
        if self.peepholes:
            for name in PEEPHOLES:
                setattr(self, name, self.add_weight((self.units,), "zeros", name=name))
        if self.projection_units is not None:
            self.projection_kernel = self.add_weight(
                (self.units, self.projection_units),
                self.kernel_initializer,
                name=PROJECTION_KERNEL,
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
            )

    def step_weights(self) -> Weights:
        """Return the weights of a step, with the peepholes and the kernel of the projection."""
        names = [*PEEPHOLES, PROJECTION_KERNEL]
        found = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return super().step_weights()._replace(cell=found)

    def step_options(self) -> dict[str, Any]:
        """Return the options that `forward_step` reads; see `NormCell.step_options`."""
        return {} if self.cell_clip is None else {CELL_CLIP: self.cell_clip}

    @staticmethod
    def forward_step(
        x: Tensors,
        u: Tensors,
        states: Tensors,
        weights: CellWeights,
        activate: Activate,
        norm: ApplyNorm,
    ) -> StepResult:
        """Compute the new states h and c; see `NormCell.forward_step`."""
        z, old, reads_c = x[0] + u[0], states[1], OUTPUT in weights
        if reads_c:
            z, z_o = read_old_state(z, old, weights)
        i, f, g, *gates = activate(z, (GATE, GATE, CANDIDATE, GATE)[: 3 if reads_c else 4])
        c = clip_state(f * old + i * drop_candidate(g, weights), weights)
        (o,) = activate(z_o + weights[OUTPUT] * c, (GATE,)) if reads_c else gates
        (y,) = activate(norm("state_norm", c), (CANDIDATE,))
        h, residuals = project_output(o * y, weights, norm)
        return StepResult([h, c], [i, f, g, o], residuals)

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
        (i, f, g, o), (_, c), (dh, dc) = gates, new, d_states
        (y,) = activate(norm("state_norm", c), (CANDIDATE,))
        dm, d_weights = dh, WeightGradients()
        if PROJECTION_KERNEL in weights:
            dm, d_weights = projection_gradient(o * y, residuals, dh, weights, norm)
        do = gate_gradient(GATE, o, dm * y)
        dc = dc + norm.backward("state_norm", c, gate_gradient(CANDIDATE, y, dm * o))
        if OUTPUT in weights:
            dc = dc + do * weights[OUTPUT]
        dc = clip_gradient(c, dc, weights)
        di = gate_gradient(GATE, i, dc * drop_candidate(g, weights))
        df = gate_gradient(GATE, f, dc * old[1])
        dg = gate_gradient(CANDIDATE, g, drop_candidate(dc * i, weights))
        d_old = dc * f
        if OUTPUT in weights:
            d_old = d_old + di * weights[INPUT] + df * weights[FORGET]
            d_weights |= peephole_gradients(di, df, do, old[1], c)
        dz = side_by_side([di, df, dg, do])
        return StepGradients([dz], [dz], [None, d_old], d_weights)

    def step(
        self, weights: Weights, x: Tensor, states: Tensors, dropout: Tensors, norm: ApplyNorm
    ) -> Tensors:
        """Compute the new states h and c; see `NormCell.step`."""
        if not self.normalize_carry:
            return super().step(weights, x, states, dropout, norm)
        normalized = {}

        def remember(slot: str, a: Tensor) -> Tensor:
            normalized[slot] = norm(slot, a)
            return normalized[slot]

        h, _ = super().step(weights, x, states, dropout, remember)
        return [h, normalized["state_norm"]]

    def zoneout_rates(self) -> tuple[float, ...]:
        """Return the probabilities that a unit of h, and of c, keeps its value at a timestep."""
        return self.zoneout, self.cell_zoneout

    def has_custom_gradient(self) -> bool:
        """Return whether `backward_step` supports the options: not with `normalize_carry=True`."""
        return super().has_custom_gradient() and not self.normalize_carry


@keras.saving.register_keras_serializable(package="keras_norm")
@documented_by_cell
class NormLSTM(CellLayer):
    """Run an LSTM with normalization inside over sequences."""

    cell_class: type[NormCell] = NormLSTMCell
    keras_class = keras.layers.LSTM
