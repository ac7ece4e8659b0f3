"""Gather timesteps of sequences in one operation of TensorFlow."""

import tensorflow as tf

from keras_norm.typing import Tensor


def gather_timesteps(x: Tensor, index: Tensor) -> Tensor:
    """Compute y[b, t] = x[b, index[b, t]].

    Args:
        x: (batch, time, ...).
        index: timesteps, int (batch, time).
    """
    return tf.gather(x, index, batch_dims=1)
