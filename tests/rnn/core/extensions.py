"""Cells and norms as a user of the package writes them; they run on every backend.

The tests of each backend train them, so this module imports no backend.
"""

from typing import ClassVar

import keras
from keras import ops

import keras_norm
from keras_norm import NormLSTM, NormLSTMCell
from keras_norm.cells import CANDIDATE, GATE, StepGradients, StepResult
from tests.pages import block


class LoopPeepholeLSTMCell(NormLSTMCell):
    """LSTM cell whose gates also read c, with one weight for each unit (Gers et al. 2002).

    ::

        i, f = s(... + p_i * c), s(... + p_f * c)
        c' = f * c + i * g
        o = s(... + p_o * c')

    The cell has no `backward_step` of its own.
    """

    PEEPHOLES: ClassVar = ("p_i", "p_f", "p_o")

    def build(self, input_shape):
        super().build(input_shape)
        for name in self.PEEPHOLES:
            setattr(self, name, self.add_weight((self.units,), "zeros", name=name))

    def step_weights(self):
        peepholes = {name: getattr(self, name) for name in self.PEEPHOLES}
        return super().step_weights()._replace(cell=peepholes)

    @staticmethod
    def forward_step(x, u, states, weights, activate, norm):
        c = states[1]
        z_i, z_f, z_g, z_o = ops.split(x[0] + u[0], 4, axis=-1)
        z = ops.concatenate([z_i + weights["p_i"] * c, z_f + weights["p_f"] * c, z_g], axis=-1)
        i, f, g = activate(z, (GATE, GATE, CANDIDATE))
        c = f * c + i * g
        (o,) = activate(z_o + weights["p_o"] * c, (GATE,))
        (y,) = activate(norm("state_norm", c), (CANDIDATE,))
        return StepResult([o * y, c], [i, f, g, o], [])


class PeepholeLSTMCell(LoopPeepholeLSTMCell):
    """Peephole cell with the gradient of a step."""

    @staticmethod
    def backward_step(gates, residuals, old, new, d_states, weights, norm):
        i, f, g, o = gates
        dh, dc = d_states
        y = ops.tanh(norm("state_norm", new[1]))
        do = dh * y * o * (1.0 - o)
        dc = dc + norm.backward("state_norm", new[1], dh * o * (1.0 - y * y)) + do * weights["p_o"]
        di, df = dc * g * i * (1.0 - i), dc * old[1] * f * (1.0 - f)
        dz = ops.concatenate([di, df, dc * i * (1.0 - g * g), do], axis=-1)
        d_old = dc * f + di * weights["p_i"] + df * weights["p_f"]
        d_weights = {"p_i": di * old[1], "p_f": df * old[1], "p_o": do * new[1]}
        return StepGradients([dz], [dz], [None, d_old], d_weights)


class LoopPeepholeLSTM(NormLSTM):
    """LSTM with peepholes that trains with the gradient of the backend."""

    cell_class = LoopPeepholeLSTMCell


class PeepholeLSTM(NormLSTM):
    """LSTM with peepholes that trains with the custom gradient."""

    cell_class = PeepholeLSTMCell


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
