"""Batch normalization with TensorFlow's fused kernel."""

import tensorflow as tf

from keras_norm.ops.sums import total
from keras_norm.typing import Tensor


def normalize_batch(
    x: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    feature_axes: int = 1,
    min_count: int = 0,
    fallback: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalize a batch with the mean and variance of the batch, in TensorFlow's fused kernel.

    ::

        y = gamma * (x - mean) / sqrt(variance + epsilon) + beta

    The kernel reads x twice and writes y once, and so does its gradient. The kernel rounds its
    mean, so its input is x - s, where s is a first mean (see `keras_norm.ops.moments`).

    Args:
        x: (..., features), of float32 or narrower.
        gamma: (features,), or None for 1.
        beta: (features,), or None for 0.
        epsilon: number added to the variance.
        feature_axes: number of trailing axes that are not reduced: 1 for statistics of each
            feature, 2 for statistics of each feature at each timestep.
        min_count: smallest number of positions that gives statistics, at most 2.
        fallback: mean and variance to use with fewer positions; None if there are always enough.

    Returns:
        y, the mean, the biased variance and the number of positions; the reduced axes have size 1.
        All are float32. Only y has a gradient.
    """
    x = tf.cast(x, tf.float32)
    axes = list(range(len(x.shape) - feature_axes))
    n = tf.cast(tf.reduce_prod(tf.shape(x)[: len(axes)]), x.dtype)

    s = total(x, axes) / tf.maximum(n, 1.0)
    if fallback is not None:
        # A batch of one value has a variance of 0: normalize the value with `fallback`, another
        # mean and variance. The kernel returns beta for such a batch, so add the normalized value
        # to beta.
        mean, variance = fallback
        offset = (s - mean) * tf.math.rsqrt(variance + epsilon) * (1.0 if gamma is None else gamma)
        offset = tf.where(n >= min_count, 0.0, offset)
        beta = offset if beta is None else beta + offset
    s = tf.stop_gradient(s)
    y, residual, unbiased = _fused_batch_norm(x - s, gamma, beta, epsilon, feature_axes)
    residual, unbiased = (
        tf.reshape(tf.stop_gradient(statistic), tf.shape(s)) for statistic in (residual, unbiased)
    )
    variance = unbiased * (n - 1.0) / tf.maximum(n, 1.0)
    return y, s + residual, variance, tf.reshape(n, [1] * len(x.shape))


def normalize_with_statistics(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
) -> Tensor:
    """Normalize `x` with a given mean and variance (features,), in TensorFlow's fused kernel."""
    return _fused_batch_norm(tf.cast(x, tf.float32), gamma, beta, epsilon, 1, mean, variance)[0]


def _fused_batch_norm(
    x: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    feature_axes: int,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run TensorFlow's fused kernel of batch normalization.

    Returns:
        y, mean and variance, flat. If `mean` is None, they are the mean and the unbiased variance
        of the batch, else the arguments.
    """
    shape, last = tf.shape(x), x.shape[-feature_axes:]
    # If the number of channels is dynamic, the ONNX converter writes a wrong number: time *
    # channels. So pass a static number of channels as a constant.
    last = last.as_list() if last.is_fully_defined() else shape[-feature_axes:]
    positions, channels = tf.reduce_prod(shape[:-feature_axes]), tf.reduce_prod(last)

    def broadcast_to_channels(weight: Tensor | None, default: float) -> Tensor:
        values = tf.cast(default if weight is None else weight, x.dtype)
        return tf.reshape(values + tf.zeros(last), (channels,))

    # The kernel takes images (batch, height, width, channels). With a channel for each feature,
    # images of one pixel are fastest. With a channel for each pair (timestep, feature), a single
    # image of many pixels is fastest.
    images = (positions, 1, 1, channels) if feature_axes == 1 else (1, 1, positions, channels)
    y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, images),
        scale=broadcast_to_channels(gamma, 1.0),
        offset=broadcast_to_channels(beta, 0.0),
        mean=tf.zeros(0) if mean is None else tf.cast(mean, x.dtype),
        variance=tf.zeros(0) if variance is None else tf.cast(variance, x.dtype),
        epsilon=epsilon,
        is_training=mean is None,
    )
    return tf.reshape(y, shape), mean, variance
