"""Cells and norms as a user of the package writes them; they run on every backend.

The tests of each backend train them, so this module imports no backend.
"""

import keras
from keras import ops

import keras_norm
from keras_norm import NormLSTM, NormLSTMCell
from keras_norm.cells import (
    CANDIDATE,
    GATE,
    StepGradients,
    StepResult,
    activate,
    gate_gradient,
    side_by_side,
)
from tests.pages import block


class LoopMixingLSTMCell(NormLSTMCell):
    """LSTM cell with a further matrix and an option: the output reads mixed units of a leaking c.

    ::

        c' = (1 - leak) * f * c + i * g
        h = o * tanh(state_norm(c' A))          A: (units, units)

    The cell has no `backward_step` of its own.
    """

    def __init__(self, units, norm=None, *args, leak=0.1, **kwargs):
        super().__init__(units, norm, *args, **kwargs)
        self.leak = leak

    def build(self, input_shape):
        super().build(input_shape)
        self.mixing = self.add_weight((self.units, self.units), "zeros", name="mixing")

    def step_weights(self):
        weights = super().step_weights()
        return weights._replace(cell={**weights.cell, "mixing": self.mixing})

    def step_options(self):
        return {**super().step_options(), "kept": 1.0 - self.leak}

    @staticmethod
    def forward_step(x, u, states, weights, activate, norm):
        i, f, g, o = activate(x[0] + u[0], (GATE, GATE, CANDIDATE, GATE))
        c = weights["kept"] * f * states[1] + i * g
        (y,) = activate(norm("state_norm", ops.matmul(c, weights["mixing"])), (CANDIDATE,))
        return StepResult([o * y, c], [i, f, g, o], [])


class MixingLSTMCell(LoopMixingLSTMCell):
    """The cell with the gradient of a step."""

    @staticmethod
    def backward_step(gates, residuals, old, new, d_states, weights, norm):
        (i, f, g, o), (_, c), (dh, dc) = gates, new, d_states
        kept, mixing = weights["kept"], weights["mixing"]
        a = ops.matmul(c, mixing)
        (y,) = activate(norm("state_norm", a), (CANDIDATE,))
        da = norm.backward("state_norm", a, gate_gradient(CANDIDATE, y, dh * o))
        dc = dc + ops.matmul(da, ops.transpose(mixing))
        di, df = gate_gradient(GATE, i, dc * g), gate_gradient(GATE, f, kept * dc * old[1])
        dg, do = gate_gradient(CANDIDATE, g, dc * i), gate_gradient(GATE, o, dh * y)
        dz = side_by_side([di, df, dg, do])
        return StepGradients([dz], [dz], [None, kept * f * dc], {"mixing": (c, da)})


class LoopMixingLSTM(NormLSTM):
    """The LSTM that trains with the gradient of the backend."""

    cell_class = LoopMixingLSTMCell


class MixingLSTM(NormLSTM):
    """The LSTM that trains with the custom gradient."""

    cell_class = MixingLSTMCell


class PlainLSTMCell(NormLSTMCell):
    """The LSTM without the code of the options."""

    ADDED_SLOTS = NormLSTMCell.ADDED_SLOTS

    @staticmethod
    def forward_step(x, u, states, weights, activate, norm):
        i, f, g, o = activate(x[0] + u[0], (GATE, GATE, CANDIDATE, GATE))
        c = f * states[1] + i * g
        (y,) = activate(norm("state_norm", c), (CANDIDATE,))
        return StepResult([o * y, c], [i, f, g, o], [])

    @staticmethod
    def backward_step(gates, residuals, old, new, d_states, weights, norm):
        (i, f, g, o), (_, c), (dh, dc) = gates, new, d_states
        (y,) = activate(norm("state_norm", c), (CANDIDATE,))
        dc = dc + norm.backward("state_norm", c, gate_gradient(CANDIDATE, y, dh * o))
        di, df = gate_gradient(GATE, i, dc * g), gate_gradient(GATE, f, dc * old[1])
        dg, do = gate_gradient(CANDIDATE, g, dc * i), gate_gradient(GATE, o, dh * y)
        dz = side_by_side([di, df, dg, do])
        return StepGradients([dz], [dz], [None, dc * f], {})


class PlainLSTM(NormLSTM):
    cell_class = PlainLSTMCell


def model_layers():
    """Return the layers of the model that one backend trains and another backend loads."""
    options = {"return_sequences": True}
    layers = [keras_norm.LayerNormLSTM(4, **options), keras_norm.LayerNormSimpleRNN(4, **options)]
    layers.append(keras_norm.BatchNormGRU(4, max_timesteps=5, **options))
    return [keras.layers.Masking(), *layers, keras.layers.Dense(1)]


def run_blocks(page, module, first_lines):
    """Run code blocks of a page, and return the names that they define."""
    names = {"__name__": module}
    for line in first_lines:
        exec(block(page, line), names)
    return names


# The norm of docs/design/extend.md.
_NORM = run_blocks(
    "design/extend.md",
    "keras_norm.layers.mean_norm",
    ["import dataclasses", "@dataclasses.dataclass(frozen=True)"],
)
MeanNorm, MeanNormalization = _NORM["MeanNorm"], _NORM["MeanNormalization"]

# The cell of docs/guides/own_cell.md with a norm in every slot.
SLSTM_FILE = block("guides/own_cell.md", '"""slstm.py: the sLSTM with normalization inside."""')
_CELL = run_blocks(
    "guides/own_cell.md",
    "my_package.slstm",
    [
        '"""slstm.py: the sLSTM with normalization inside."""',
        "import keras_norm",
        "from keras_norm.cells import gate_gradient",
    ],
)
SLSTM, SLSTMCell = _CELL["SLSTM"], _CELL["SLSTMCell"]
HEADS = 2
HEAD_NORMS = {
    "kernel_norm": keras_norm.LayerNormalization(),
    "recurrent_norm": keras_norm.LayerNormalization(),
    "head_norm": _CELL["HeadNormalization"](heads=HEADS),
}
