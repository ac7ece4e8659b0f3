"""Batch renormalization: correct the batch statistics with moving averages.

::

    r = clip(sigma_batch / sigma, rmin, rmax)      d = clip((mean_batch - mean) / sigma, +-dmax)
    y = gamma * (r * (x - mean_batch) / sigma_batch + d) + beta

with sigma = sqrt(var + epsilon). No gradient flows through r and d. The moving variance is computed
from the moving average of sigma. (Ioffe, "Batch Renormalization" (2017), arXiv 1702.03275,
algorithm 1.)
"""

import keras
from keras import ops

from keras_norm.layers.normalization import Affine
from keras_norm.typing import Tensor

LIMITS = ("rmax", "rmin", "dmax")


def require_renorm(clipping: dict[str, float] | None, momentum: float) -> None:
    """Check the `renorm_clipping` and `renorm_momentum` of a batch normalization.

    Args:
        clipping: dict with any of `rmax`, `rmin`, `dmax`, or None.
        momentum: weight of the old value in the averages of mean and sigma.

    Raises:
        ValueError: unknown keys, rmax below rmin, a negative dmax, or a momentum outside [0, 1].
    """
    clipping = clipping or {}
    if set(clipping) - set(LIMITS):
        raise ValueError(
            f"renorm_clipping may have only the keys {', '.join(LIMITS)}. "
            f"Received: renorm_clipping={clipping}."
        )
    rmax, rmin, dmax = (clipping.get(key) for key in LIMITS)
    if rmax is not None and rmin is not None and rmax < rmin:
        raise ValueError(
            f"rmax in renorm_clipping must be at least rmin. Received: renorm_clipping={clipping}."
        )
    if dmax is not None and dmax < 0:
        raise ValueError(
            f"dmax in renorm_clipping must be 0 or more. Received: renorm_clipping={clipping}."
        )
    if not 0.0 <= momentum <= 1.0:
        raise ValueError(
            f"renorm_momentum must be within [0, 1]. Received: renorm_momentum={momentum}."
        )


def add_renorm_weights(layer: keras.layers.Layer, shape: tuple[int, ...]) -> None:
    """Create the moving averages of batch renormalization in Keras' order, with Keras' names."""

    def deviation(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        return ops.sqrt(layer.moving_variance_initializer(shape, dtype=dtype))

    mean = layer.moving_mean_initializer
    layer.moving_stddev = layer.add_statistic("moving_stddev", shape, deviation)
    layer.renorm_mean = layer.add_statistic("renorm_mean", shape, mean)
    layer.renorm_stddev = layer.add_statistic("renorm_stddev", shape, deviation)


def renormalize(
    layer: keras.layers.Layer, affine: Affine, mean: Tensor, variance: Tensor
) -> Affine:
    """Return gamma and beta with the corrections r and d of batch renormalization.

    Args:
        layer: batch normalization with the averages.
        affine: gamma and beta of the layer.
        mean: mean of the batch.
        variance: variance of the batch.
    """
    shape = ops.shape(mean)
    average = ops.reshape(ops.cast(layer.renorm_mean, mean.dtype), shape)
    sigma = ops.reshape(ops.cast(layer.renorm_stddev, mean.dtype), shape)
    sigma = ops.maximum(sigma, layer.epsilon**0.5)
    r = ops.sqrt(variance + layer.epsilon) / sigma
    d = (mean - average) / sigma
    rmax, rmin, dmax = ((layer.renorm_clipping or {}).get(limit) for limit in LIMITS)
    if rmin is not None:
        r = ops.maximum(r, rmin)
    if rmax is not None:
        r = ops.minimum(r, rmax)
    if dmax is not None:
        d = ops.clip(d, -dmax, dmax)
    gamma, beta = ops.stop_gradient(r), ops.stop_gradient(d)
    if affine.gamma is not None:
        gain = ops.cast(affine.gamma, mean.dtype)
        gamma, beta = gamma * gain, beta * gain
    if affine.beta is not None:
        beta = beta + ops.cast(affine.beta, mean.dtype)
    return Affine(gamma, beta)


def update_renorm(layer: keras.layers.Layer, mean: Tensor, variance: Tensor, valid: Tensor) -> None:
    """Update the moving averages of batch renormalization with the statistics of a batch.

    An average stays unchanged where `valid` is False.
    """
    sigma = ops.sqrt(variance + layer.epsilon)
    for average, batch, momentum in (
        (layer.renorm_mean, mean, layer.renorm_momentum),
        (layer.renorm_stddev, sigma, layer.renorm_momentum),
        (layer.moving_mean, mean, layer.momentum),
        (layer.moving_stddev, sigma, layer.momentum),
    ):
        layer.update_average(average, batch, 1.0 - momentum, valid)
    variance = ops.relu(ops.square(layer.moving_stddev) - layer.epsilon)
    layer.update_average(layer.moving_variance, variance, 1.0, valid)
