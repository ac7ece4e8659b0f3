"""Choose between TensorFlow's fused batch norm and separate Keras operations."""

import math

import keras

from keras_norm.keras_internals import computes_on_cpu
from keras_norm.typing import Tensor

# Smallest number of elements for which the fused kernel of batch normalization is faster than
# separate operations.
LARGE = 2**17
# Assumed size of a dynamic dimension, to estimate the number of elements. A smaller size means that
# fewer tensors reach LARGE and use the fused kernel. The size is smaller for training, because
# TensorFlow needs 0.2 ms to start the kernel in training, and 0.05 ms at inference.
DYNAMIC_SIZE = {"training": 64, "inference": 256}


def uses_fused_batch_norm(x: Tensor, axis: int, mode: str) -> bool:
    """Return whether TensorFlow's fused batch norm kernel is faster for `x` than Keras operations.

    Args:
        x: tensor to normalize.
        axis: the feature axis, in [0, rank).
        mode: "training" or "inference".
    """
    size = math.prod(DYNAMIC_SIZE[mode] if size is None else size for size in x.shape)
    return (
        size >= LARGE
        and axis == len(x.shape) - 1
        and keras.backend.standardize_dtype(x.dtype) != "float64"
        and computes_on_cpu()
    )
