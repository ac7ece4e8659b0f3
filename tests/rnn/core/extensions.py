"""A cell and a norm as a user of the package writes them; both run on every backend.

The tests of each backend train them, so this module imports no backend.
"""

import pathlib
import re
from typing import ClassVar

import keras
from keras import ops

import keras_norm
from keras_norm import NormLSTM, NormLSTMCell
from keras_norm.rnn.core.recurrence import CANDIDATE, GATE, StepGradients, StepResult


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


# The norm of docs/design/extend.md.
_PAGE = (pathlib.Path(__file__).parents[3] / "docs" / "design" / "extend.md").read_text()
_CODE = re.findall(r"```python\n(.*?)```", _PAGE.partition("## Add a cell")[0], re.DOTALL)
_NAMES = {"__name__": "keras_norm.layers.mean_norm"}
exec("\n".join(_CODE), _NAMES)
MeanNorm, MeanNormalization = _NAMES["MeanNorm"], _NAMES["MeanNormalization"]
