"""Batch renormalization: a batch's normalization, corrected by slow averages.

::

    r = clip(sigma_batch / sigma, rmin, rmax)      d = clip((mean_batch - mean) / sigma, +-dmax)
    y = gamma * (r * (x - mean_batch) / sigma_batch + d) + beta

sigma is sqrt(var + epsilon); no gradient flows through r and d. The moving variance follows the
moving average of sigma. (Ioffe, "Batch Renormalization" (2017), arXiv 1702.03275, algorithm 1.)
"""

from typing import Any

from keras import ops

LIMITS = ("rmax", "rmin", "dmax")


def require_renorm(clipping: dict[str, float] | None, momentum: float) -> None:
    """Refuse arguments that make no sense.

    Args:
        clipping: dict with any of `rmax`, `rmin`, `dmax`, or None.
        momentum: weight of the past in mean and sigma.

    Raises:
        ValueError: unknown keys, rmax below rmin, a negative dmax, or a momentum outside [0, 1].
    """
    clipping = clipping or {}
    if set(clipping) - set(LIMITS):
        raise ValueError(
            f"renorm_clipping takes the keys {', '.join(LIMITS)}. "
            f"Received: renorm_clipping={clipping}."
        )
    rmax, rmin, dmax = (clipping.get(key) for key in LIMITS)
    if rmax is not None and rmin is not None and rmax < rmin:
        raise ValueError(f"rmax must not be below rmin. Received: renorm_clipping={clipping}.")
    if dmax is not None and dmax < 0:
        raise ValueError(f"dmax must not be negative. Received: renorm_clipping={clipping}.")
    if not 0.0 <= momentum <= 1.0:
        raise ValueError(
            f"renorm_momentum must be within [0, 1]. Received: renorm_momentum={momentum}."
        )


def add_renorm_weights(layer: Any, shape: tuple[int, ...]) -> None:
    """Create the averages, in the order and by the names of Keras' layer."""

    def deviation(shape: Any, dtype: Any = None) -> Any:
        return ops.sqrt(layer.moving_variance_initializer(shape, dtype=dtype))

    mean = layer.moving_mean_initializer
    layer.moving_stddev = layer.add_statistic("moving_stddev", shape, deviation)
    layer.renorm_mean = layer.add_statistic("renorm_mean", shape, mean)
    layer.renorm_stddev = layer.add_statistic("renorm_stddev", shape, deviation)


def renormalized(layer: Any, affine: dict[str, Any], mean: Any, variance: Any) -> dict[str, Any]:
    """Fold r and d into gamma and beta; `mean` and `variance` are the batch's."""
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
    if affine["gamma"] is not None:
        gain = ops.cast(affine["gamma"], mean.dtype)
        gamma, beta = gamma * gain, beta * gain
    if affine["beta"] is not None:
        beta = beta + ops.cast(affine["beta"], mean.dtype)
    return {"gamma": gamma, "beta": beta}


def update_renorm(layer: Any, mean: Any, variance: Any, valid: Any) -> None:
    """Move every average of the layer, where `valid`."""
    sigma = ops.sqrt(variance + layer.epsilon)
    for average, batch, momentum in (
        (layer.renorm_mean, mean, layer.renorm_momentum),
        (layer.renorm_stddev, sigma, layer.renorm_momentum),
        (layer.moving_mean, mean, layer.momentum),
        (layer.moving_stddev, sigma, layer.momentum),
    ):
        layer.move(average, batch, 1.0 - momentum, valid)
    variance = ops.relu(ops.square(layer.moving_stddev) - layer.epsilon)
    layer.move(layer.moving_variance, variance, 1.0, valid)
