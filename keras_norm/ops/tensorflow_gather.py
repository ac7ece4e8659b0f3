"""Gather timesteps of sequences in one operation of TensorFlow."""

import tensorflow as tf

from keras_norm.typing import Tensor


def gather_timesteps(x: Tensor, index: Tensor) -> Tensor:
    """Compute y[b, t] = x[b, index[b, t]].

    Args:
        x: (batch, time, ...).
        index: timesteps, int (batch, time), or (1, time) for all sequences.
    """
    if index.shape[0] == 1:
        return tf.gather(x, index[0], axis=1)
    return tf.gather(x, index, batch_dims=1)
