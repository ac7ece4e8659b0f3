"""The DRAW layer: reads and draws parts of a picture with attention (Gregor et al. 2015).

Equation numbers are those of arXiv 1502.04623.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_norm.ops.scan import scan

EVALUATION_SEED = 0  # seed of the noise outside training, so that all models get equal noise


def filterbank(raw: Any, points: int, size: int) -> tuple[Any, Any, Any]:
    """Compute the Gaussian filters of a grid of points (eq. 19 to 26).

    ::

        g_X = (A + 1) / 2 (g~_X + 1), likewise g_Y; delta = (A - 1) / (N - 1) delta~
        mu_X[i] = g_X + (i - N / 2 - 0.5) delta, i = 1 ... N
        F_X[i, a] = exp(-(a - mu_X[i])^2 / (2 sigma^2)) / Z_X, a = 1 ... A

    Z_X makes each row sum to 1. A softmax over a computes F_X also for points far outside.

    Args:
        raw: (batch, 5): g~_X, g~_Y, log sigma^2, log delta~, log gamma.
        points: N.
        size: A = B, size of the picture.

    Returns:
        F_X and F_Y, (batch, N, A), and gamma, (batch, 1).
    """
    g_x, g_y, log_variance, log_delta, log_gamma = ops.split(raw, 5, axis=-1)
    delta = (size - 1) / (points - 1) * ops.exp(log_delta)
    from_centre = (ops.arange(1, points + 1, dtype=raw.dtype) - points / 2 - 0.5) * delta
    a = ops.arange(1, size + 1, dtype=raw.dtype)

    def bank(g: Any) -> Any:
        mu = (size + 1) / 2 * (g + 1) + from_centre
        squares = ops.square(a - mu[..., None])
        return ops.softmax(-squares / 2 * ops.exp(-log_variance)[..., None], axis=-1)

    return bank(g_x), bank(g_y), ops.exp(log_gamma)


def read(picture: Any, f_x: Any, f_y: Any, gamma: Any) -> Any:
    """Read a patch (batch, N, N) of a picture (batch, A, A): gamma F_Y x F_X^T (eq. 27)."""
    return gamma[..., None] * ops.matmul(f_y, ops.matmul(picture, ops.swapaxes(f_x, 1, 2)))


def write(patch: Any, f_x: Any, f_y: Any, gamma: Any) -> Any:
    """Draw a patch (batch, N, N) into a picture (batch, A, A): F_Y^T w F_X / gamma (eq. 29)."""
    return ops.matmul(ops.swapaxes(f_y, 1, 2), ops.matmul(patch, f_x)) / gamma[..., None]


def kl_to_prior(mean: Any, log_sigma: Any) -> Any:
    """Return the KL divergence to the normal prior, in nats (eq. 11).

    It is sum (mu^2 + sigma^2 - log sigma^2 - 1) / 2 over the last axis.
    """
    return ops.sum((ops.square(mean) + ops.exp(2 * log_sigma) - 1) / 2 - log_sigma, axis=-1)


class Draw(keras.layers.Layer):
    """An encoder and a decoder that read and draw in glimpses, with attention (sections 2 and 3).

    ::

        x^ = x - s(c); r = read(x, x^, h_dec)
        h_enc = RNN_enc(h_enc, [r, h_dec]); z ~ N(mu(h_enc), sigma(h_enc))
        h_dec = RNN_dec(h_dec, z); c = c + write(h_dec)

    s is the sigmoid. All states and the canvas c start at zero.

    Args:
        cell: returns an LSTM cell, for the encoder and for the decoder.
        glimpses: number of glimpses.
        points: N of both grids.
        size: A, size of the picture.
        latent: number of latent numbers in z.

    Call arguments:
        pictures: (batch, A^2) of 0 and 1.
        training: whether the noise is random; else it has a fixed seed.

    Returns:
        (batch, A^2 + 1): the logits of the pixels, and the sum of KL(z) over the glimpses.
    """

    def __init__(
        self,
        cell: Callable[[], keras.layers.Layer],
        glimpses: int,
        points: int,
        size: int,
        latent: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.glimpses, self.points, self.size, self.latent = glimpses, points, size, latent
        self.encoder, self.decoder = cell(), cell()
        self.looks = keras.layers.Dense(5)
        self.posterior = keras.layers.Dense(2 * latent)
        self.patch = keras.layers.Dense(points**2)
        self.places = keras.layers.Dense(5)
        self.seeds = keras.random.SeedGenerator()

    def build(self, shape: Any) -> None:
        """Create the weights of the cells and the dense layers."""
        units = self.decoder.units
        self.encoder.build((None, 2 * self.points**2 + units))
        self.decoder.build((None, self.latent))
        for layer in (self.looks, self.posterior, self.patch, self.places):
            layer.build((None, units))

    def call(self, pictures: Any, training: bool = False) -> Any:
        """Read pictures and draw them."""
        count = ops.shape(pictures)[0]
        seed = self.seeds if training else EVALUATION_SEED
        noise = keras.random.normal((self.glimpses, count, self.latent), seed=seed)
        x = ops.reshape(pictures, (-1, self.size, self.size))

        def glimpse(carry: list[Any], at: list[Any]) -> tuple[list[Any], list[Any]]:
            canvas, *states = carry
            encoded, decoded = states[:2], states[2:]
            f_x, f_y, gamma = filterbank(self.looks(decoded[0]), self.points, self.size)
            seen = [read(p, f_x, f_y, gamma) for p in (x, x - ops.sigmoid(canvas))]
            flat = [ops.reshape(patch, (-1, self.points**2)) for patch in seen]
            h, encoded = self.encoder(ops.concatenate([*flat, decoded[0]], axis=-1), encoded)
            mean, log_sigma = ops.split(self.posterior(h), 2, axis=-1)
            z = mean + ops.exp(log_sigma) * at[0]
            canvas, decoded = self._drawn(canvas, decoded, z)
            return [canvas, *encoded, *decoded], [kl_to_prior(mean, log_sigma)]

        start = [ops.zeros_like(x), *self._states(count, 4)]
        like = [ops.zeros_like(pictures[:, 0])]
        carry, (kl,) = scan(
            glimpse, [noise], start, like, training=True
        )  # always the training path: one trace
        logits = ops.reshape(carry[0], (-1, self.size**2))
        return ops.concatenate([logits, ops.sum(kl, axis=0)[:, None]], axis=-1)

    def generate(self, noise: Any) -> Any:
        """Draw pictures from noise (glimpses, pictures, latent) and return their logits."""
        count = len(noise[0])
        canvas, decoded = ops.zeros((count, self.size, self.size)), self._states(count, 2)
        for z in noise:
            canvas, decoded = self._drawn(canvas, decoded, z)
        return ops.reshape(canvas, (count, -1))

    def _drawn(self, canvas: Any, decoded: list[Any], z: Any) -> tuple[Any, list[Any]]:
        h, decoded = self.decoder(z, decoded)
        patch = ops.reshape(self.patch(h), (-1, self.points, self.points))
        return canvas + write(patch, *filterbank(self.places(h), self.points, self.size)), decoded

    def _states(self, count: Any, number: int) -> list[Any]:
        return [ops.zeros((count, self.decoder.units)) for _ in range(number)]
