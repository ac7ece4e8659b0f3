"""The elementwise half of each cell's step, forward and backward.

The products x W and h U come normalized and with their biases, gate by gate. A cell gives

- `GROUPS`: the number of gates in each group of columns, which have a norm in common,
- `SAVED`: the number of arrays, as wide as a state, that its backward pass needs of the step,
- `KERNEL`, `RECURRENT`: which of the gradients that `backward` returns belongs to each group of x W
  and of h U,
- `forward`: (x, u, states, norm) -> the new states, and what is saved, a list of arrays,
- `backward`: (saved, old states, new states, gradients of the new states, norm) -> `StepGradients`.

`norm` is the norm of the state: an object with `forward(c)` and `backward(c, dy)`.
"""

from typing import Any, NamedTuple

import tensorflow as tf

Arrays = list[Any]


class StepGradients(NamedTuple):
    """Gradients of the groups, of the old states (None for zeros), and of the norm's weights.

    Those of a group are a list of one for each gate. `norm` holds those of the state norm's gamma
    and beta, summed over the batch.
    """

    groups: list[list[Any]]
    states: list[Any]
    norm: list[Any]


class LSTM:
    """i, f, g, o = x + u; c = s(f) c + s(i) tanh(g); h = s(o) tanh(norm(c))."""

    GROUPS = (4,)
    SAVED = 4
    KERNEL = RECURRENT = (0,)

    @staticmethod
    def forward(x: Arrays, u: Arrays, states: Arrays, norm: Any) -> Any:
        """The step."""
        i, f, g, o = map(tf.add, x, u)
        i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
        c = f * states[1] + i * g
        return [o * tf.tanh(norm.forward(c)), c], [i, f, g, o]

    @staticmethod
    def backward(saved: Arrays, old: Arrays, new: Arrays, d: Arrays, norm: Any) -> StepGradients:
        """Its derivative."""
        i, f, g, o = saved
        y = tf.tanh(norm.forward(new[1]))
        dh, dc = d
        through_norm, norm_weights = norm.backward(new[1], dh * o * (1.0 - y * y))
        dc = dc + through_norm
        di, df = dc * g * i * (1.0 - i), dc * old[1] * f * (1.0 - f)
        dg, do = dc * i * (1.0 - g * g), dh * y * o * (1.0 - o)
        return StepGradients([[di, df, dg, do]], [None, dc * f], norm_weights)


class GRU:
    """z, r = s(x_zr + u_zr); n = tanh(x_n + r u_n); h = z h + (1 - z) n."""

    GROUPS = (2, 1)
    SAVED = 4
    KERNEL = (0, 1)
    RECURRENT = (0, 2)

    @staticmethod
    def forward(x: Arrays, u: Arrays, states: Arrays, norm: Any) -> Any:
        """The step."""
        z, r = tf.sigmoid(x[0] + u[0]), tf.sigmoid(x[1] + u[1])
        n = tf.tanh(x[2] + r * u[2])
        h = z * states[0] + (1.0 - z) * n
        return [h], [z, r, n, u[2]]

    @staticmethod
    def backward(saved: Arrays, old: Arrays, new: Arrays, d: Arrays, norm: Any) -> StepGradients:
        """Its derivative."""
        z, r, n, u = saved
        (dh,) = d
        dn = dh * (1.0 - z) * (1.0 - n * n)
        dz, dr = dh * (old[0] - n) * z * (1.0 - z), dn * u * r * (1.0 - r)
        return StepGradients([[dz, dr], [dn], [dn * r]], [dh * z], [])


class SimpleRNN:
    """h = tanh(x + u)."""

    GROUPS = (1,)
    SAVED = 1
    KERNEL = RECURRENT = (0,)

    @staticmethod
    def forward(x: Arrays, u: Arrays, states: Arrays, norm: Any) -> Any:
        """The step."""
        h = tf.tanh(x[0] + u[0])
        return [h], [h]

    @staticmethod
    def backward(saved: Arrays, old: Arrays, new: Arrays, d: Arrays, norm: Any) -> StepGradients:
        """Its derivative."""
        (dh,) = d
        (h,) = saved
        return StepGradients([[dh * (1.0 - h * h)]], [None], [])


CELLS: dict[str, Any] = {"lstm": LSTM, "gru": GRU, "simple_rnn": SimpleRNN}
