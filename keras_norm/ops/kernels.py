"""Where TensorFlow's own kernels serve better than a composition of operations."""

import math
from typing import Any

import keras

from keras_norm.ops.scan import loops_are_portable

# Elements from which on the kernel of batch normalization is faster.
LARGE = 2**17
# What an unknown size counts as: the kernel takes 0.2 ms to start in training, 0.05 at inference.
UNKNOWN = {"training": 64, "inference": 256}


def computes_on_cpu() -> bool:
    """Whether TensorFlow computes, and on a CPU, where products keep all digits of float32."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_logical_devices("GPU")


def has_batch_norm(x: Any, axis: int, mode: str) -> bool:
    """Whether a kernel normalizes `x` with float32 statistics, and is faster.

    TFLite has no such kernel: what it makes of one loses the digits of a large mean.

    Args:
        x: tensor to normalize.
        axis: the feature axis, in [0, rank).
        mode: "training" or "inference".
    """
    size = math.prod(UNKNOWN[mode] if size is None else size for size in x.shape)
    return (
        size >= LARGE
        and axis == len(x.shape) - 1
        and keras.backend.standardize_dtype(x.dtype) != "float64"
        and computes_on_cpu()
        and not loops_are_portable()
    )
