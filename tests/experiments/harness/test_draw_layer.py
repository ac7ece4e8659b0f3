"""The parts of DRAW agree with the paper's equations, and its noise with its seed."""

import keras
import numpy as np

import keras_norm
from experiments.harness.draw_layer import Draw

RNG = np.random.default_rng(0)
POINTS, SIZE = 3, 8


def banks_by_numpy(raw, points, size):
    """Compute equations 19 to 26 in float64, one entry at a time."""
    g = (size + 1) / 2 * (raw[:, :2].astype("float64") + 1)
    variance, delta, gamma = np.exp(raw[:, 2:].astype("float64")).T
    delta = (size - 1) / (points - 1) * delta
    banks = np.empty((2, len(raw), points, size))
    for axis, row, i, a in np.ndindex(banks.shape):
        mu = g[row, axis] + (i + 1 - points / 2 - 0.5) * delta[row]
        banks[axis, row, i, a] = np.exp(-((a + 1 - mu) ** 2) / (2 * variance[row]))
    return *(banks / banks.sum(axis=-1, keepdims=True)), gamma[:, None]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(cell, x, h, c):
    """Compute keras.layers.LSTMCell in float64, with the gates i, f, c, o."""
    W, U, b = (np.array(w, "float64") for w in cell.weights)
    i, f, g, o = np.split(x @ W + h @ U + b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def model(cell=keras_norm.NormLSTMCell):
    keras.utils.set_random_seed(0)
    layer = Draw(lambda: cell(6), 3, POINTS, SIZE, 4)
    return layer, RNG.integers(0, 2, (5, SIZE**2)).astype("float32")


def test_the_layer_agrees_with_numpy():
    layer, pictures = model()
    found = np.array(layer(pictures))
    noise = np.array(keras.random.normal((3, 5, 4), seed=0), "float64")
    x = pictures.reshape(5, SIZE, SIZE).astype("float64")

    def dense(part, h):
        return h @ np.array(part.kernel, "float64") + np.array(part.bias, "float64")

    canvas, kl = np.zeros_like(x), 0.0
    h_enc, c_enc, h_dec, c_dec = np.zeros((4, 5, 6))
    for t in range(3):
        f_x, f_y, gamma = banks_by_numpy(dense(layer.looks, h_dec), POINTS, SIZE)
        seen = [
            gamma[..., None] * f_y @ p @ f_x.transpose(0, 2, 1) for p in (x, x - sigmoid(canvas))
        ]
        r = np.concatenate([patch.reshape(5, -1) for patch in seen], axis=-1)
        h_enc, c_enc = lstm(layer.encoder, np.concatenate([r, h_dec], axis=-1), h_enc, c_enc)
        mean, log_sigma = np.split(dense(layer.posterior, h_enc), 2, axis=-1)
        kl = kl + ((mean**2 + np.exp(2 * log_sigma) - 1) / 2 - log_sigma).sum(axis=-1)
        z = mean + np.exp(log_sigma) * noise[t]
        h_dec, c_dec = lstm(layer.decoder, z, h_dec, c_dec)
        f_x, f_y, gamma = banks_by_numpy(dense(layer.places, h_dec), POINTS, SIZE)
        patch = dense(layer.patch, h_dec).reshape(5, POINTS, POINTS)
        canvas = canvas + f_y.transpose(0, 2, 1) @ patch @ f_x / gamma[..., None]
    np.testing.assert_allclose(found[:, :-1], canvas.reshape(5, -1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[:, -1], kl, rtol=1e-4)
