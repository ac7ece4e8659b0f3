"""A cell and a norm as a user of the package writes them; both run on every backend.

The tests of each backend train them, so this module imports no backend.
"""

import dataclasses
from typing import ClassVar

import keras
from keras import ops

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
    """The same cell with the gradient of a step."""

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


@dataclasses.dataclass(frozen=True)
class HeadNorm:
    """LayerNorm of each head, a group of adjacent features; its statistics are (..., heads)."""

    heads: int
    epsilon: float

    per_batch: ClassVar = False

    def statistics(self, a, unmasked, moving):
        x = self.split(a)
        mean = ops.mean(x, axis=-1)
        deviation = x - mean[..., None]
        return [ops.rsqrt(ops.mean(deviation * deviation, axis=-1) + self.epsilon), mean]

    def apply(self, a, statistics, gamma):
        y = self.normalize(a, statistics)
        return y if gamma is None else y * gamma

    def backward(self, a, dy, statistics, gamma, unmasked):
        y, k = self.normalize(a, statistics), dy if gamma is None else dy * gamma
        y_heads, k_heads = self.split(y), self.split(k)
        da = k_heads - ops.mean(k_heads, axis=-1, keepdims=True)
        da = da - y_heads * ops.mean(k_heads * y_heads, axis=-1, keepdims=True)
        return self.join(da * statistics[0][..., None]), dy * y, dy

    def normalize(self, a, statistics):
        r, mean = (s[..., None] for s in statistics)
        return self.join((self.split(a) - mean) * r)

    def split(self, a):
        return ops.reshape(a, (*ops.shape(a)[:-1], self.heads, a.shape[-1] // self.heads))

    def join(self, x):
        return ops.reshape(x, (*ops.shape(x)[:-2], x.shape[-2] * x.shape[-1]))


class HeadNormalization(keras.layers.Layer):
    """LayerNorm of each head, with gamma and beta.

    `call` computes the norm without `HeadNorm`, so that the loop and the custom gradient do not
    share its equations.
    """

    def __init__(self, heads, epsilon=1e-3, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.epsilon = heads, epsilon

    def build(self, input_shape):
        self.gamma = self.add_weight(input_shape[-1:], "ones", name="gamma")
        self.beta = self.add_weight(input_shape[-1:], "zeros", name="beta")

    def call(self, inputs):
        groups = ops.split(inputs, self.heads, axis=-1)
        moments = [ops.moments(group, axes=[-1], keepdims=True) for group in groups]
        normalized = [
            (group - mean) / ops.sqrt(variance + self.epsilon)
            for group, (mean, variance) in zip(groups, moments, strict=True)
        ]
        return ops.concatenate(normalized, axis=-1) * self.gamma + self.beta

    def step_norm(self, training):
        return HeadNorm(self.heads, self.epsilon)

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "epsilon": self.epsilon}
