"""Batch normalization by TensorFlow's fused kernel, and over replicas. Needs TensorFlow."""

from typing import Any

import tensorflow as tf

from keras_norm.ops.sums import total


def normalize_batch(
    x: Any,
    gamma: Any,
    beta: Any,
    epsilon: float,
    kept: int = 1,
    fewest: int = 0,
    otherwise: tuple[Any, Any] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Normalize with the statistics of the batch.

    ::

        y = gamma * (x - mean) / sqrt(variance + epsilon) + beta

    The kernel reads twice and writes once, and so does its gradient. As it rounds its mean, it is
    given x - s, where s is a first mean (see `keras_norm.ops.moments`).

    Args:
        x: (..., features), of float32 or narrower.
        gamma: (features,), or None for 1.
        beta: (features,), or None for 0.
        epsilon: number added to the variance.
        kept: how many of the last axes have statistics of their own: 1 for those of each feature, 2
            for those of each feature at each timestep.
        fewest: positions that statistics need, 2 at most.
        otherwise: mean and variance that stand where there are fewer; None where there cannot be.

    Returns:
        y; the mean and the biased variance, and the count of what they were taken over, with the
        reduced axes kept at size one. All are float32, and only y has a gradient.
    """
    x = tf.cast(x, tf.float32)
    axes = list(range(len(x.shape) - kept))
    n = tf.cast(tf.reduce_prod(tf.shape(x)[: len(axes)]), x.dtype)

    s = total(x, axes) / tf.maximum(n, 1.0)
    if otherwise is not None:
        # Of one position x - s is 0, and y its offset.
        mean, variance = otherwise
        offset = (s - mean) * tf.math.rsqrt(variance + epsilon) * (1.0 if gamma is None else gamma)
        offset = tf.where(n >= fewest, 0.0, offset)
        beta = offset if beta is None else beta + offset
    s = tf.stop_gradient(s)
    y, residual, unbiased = _kernel(x - s, gamma, beta, epsilon, kept)
    residual, unbiased = (
        tf.reshape(tf.stop_gradient(statistic), tf.shape(s)) for statistic in (residual, unbiased)
    )
    variance = unbiased * (n - 1.0) / tf.maximum(n, 1.0)
    return y, s + residual, variance, tf.reshape(n, [1] * len(x.shape))


def normalize_with(x: Any, mean: Any, variance: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """The same y with given statistics (features,), in one pass."""
    return _kernel(tf.cast(x, tf.float32), gamma, beta, epsilon, 1, mean, variance)[0]


def sum_over_replicas(x: Any) -> Any:
    """Sum `x` over all replicas; `x` itself outside of a replica context."""
    context = tf.distribute.get_replica_context()
    if context is None:
        return x
    return context.all_reduce(tf.distribute.ReduceOp.SUM, x)


def _kernel(
    x: Any,
    gamma: Any,
    beta: Any,
    epsilon: float,
    kept: int,
    mean: Any = None,
    variance: Any = None,
) -> tuple[Any, Any, Any]:
    """y, and the flat mean and unbiased variance; those of the batch where no mean is given."""
    shape, last = tf.shape(x), x.shape[-kept:]
    # As constants where they are known: of open channels ONNX' converter makes time x channels.
    last = last.as_list() if last.is_fully_defined() else shape[-kept:]
    positions, channels = tf.reduce_prod(shape[:-kept]), tf.reduce_prod(last)

    def of_every_channel(weight: Any, default: float) -> Any:
        values = tf.cast(default if weight is None else weight, x.dtype)
        return tf.reshape(values + tf.zeros(last), (channels,))

    # Positions are images of one pixel where they are many, and pixels of one image where the
    # channels are: so the kernel is fastest.
    images = (positions, 1, 1, channels) if kept == 1 else (1, 1, positions, channels)
    y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, images),
        scale=of_every_channel(gamma, 1.0),
        offset=of_every_channel(beta, 0.0),
        mean=tf.zeros(0) if mean is None else tf.cast(mean, x.dtype),
        variance=tf.zeros(0) if variance is None else tf.cast(variance, x.dtype),
        epsilon=epsilon,
        is_training=mean is None,
    )
    return tf.reshape(y, shape), mean, variance
