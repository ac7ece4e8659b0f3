"""The layers of layers.py in github.com/ryankiros/layer-norm, in NumPy, with random weights."""

import numpy as np

from tests import oracles

BATCH, TIME, FEATURES, UNITS = 2, 5, 6, 4
EPSILON = 1e-5
LSTM = {"W": (FEATURES, 4 * UNITS), "U": (UNITS, 4 * UNITS), "b": (4 * UNITS,)}
GRU = {"W": (FEATURES, 2 * UNITS), "U": (UNITS, 2 * UNITS), "b": (2 * UNITS,)}
GRU |= {"Wx": (FEATURES, UNITS), "Ux": (UNITS, UNITS), "bx": (UNITS,)}


def norms(*gates):
    return {f"{letter}{k}": (n * UNITS,) for k, n in enumerate(gates, 1) for letter in "bs"}


SHAPES = {"lnlstm": LSTM | norms(4, 4, 1), "lngru": GRU | norms(2, 1, 2, 1)}
SHAPES |= {"lstm": LSTM, "gru": GRU}


def draw_weights(kind, prefix="encoder_"):
    rng = np.random.default_rng(0)
    return {f"{prefix}{name}": rng.normal(size=shape) for name, shape in SHAPES[kind].items()}


def case(kind):
    """Return the weights of a layer, its inputs and its outputs."""
    weights, x = draw_weights(kind), np.random.default_rng(1).normal(size=(BATCH, TIME, FEATURES))
    return weights, x, compute_outputs(kind, weights, x)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def compute_outputs(kind, weights, x, mask=None):
    """Compute a layer, with the names of layers.py."""
    p = {name.removeprefix("encoder_"): weight for name, weight in weights.items()}
    mask = np.ones(x.shape[:2]) if mask is None else mask

    def ln(x, k):
        if f"s{k}" not in p:
            return x
        return oracles.layer_norm(x, p[f"s{k}"], p[f"b{k}"], axes=(-1,), epsilon=EPSILON)

    def lstm_step(m, below, h_, c_):
        preact = ln(h_ @ p["U"], 2) + ln(below @ p["W"] + p["b"], 1) + p["b"]
        i, f, o, c = np.split(preact, 4, axis=-1)
        c = sigmoid(f) * c_ + sigmoid(i) * np.tanh(c)
        c = m * c + (1 - m) * c_
        h = sigmoid(o) * np.tanh(ln(c, 3))
        return m * h + (1 - m) * h_, c

    def gru_step(m, below, h_, c_):
        preact = ln(h_ @ p["U"], 3) + ln(below @ p["W"] + p["b"], 1)
        r, u = np.split(sigmoid(preact), 2, axis=-1)
        preactx = ln(h_ @ p["Ux"], 4) * r + ln(below @ p["Wx"] + p["bx"], 2)
        h = u * h_ + (1 - u) * np.tanh(preactx)
        return m * h + (1 - m) * h_, c_

    h = c = np.zeros((len(x), UNITS))
    outputs = []
    for t in range(x.shape[1]):
        step = lstm_step if kind.endswith("lstm") else gru_step
        h, c = step(mask[:, t, None], x[:, t], h, c)
        outputs.append(h)
    return np.stack(outputs, axis=1)
