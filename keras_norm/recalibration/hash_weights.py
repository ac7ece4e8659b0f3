"""Compute a hash of a model's weights, to refuse statistics collected with other weights."""

import hashlib
from collections.abc import Iterable

import keras
import numpy as np

from keras_norm.ops.to_numpy import to_numpy


def hash_weights(model: keras.Model, without: Iterable[keras.layers.Layer]) -> str:
    """Return the SHA-256 of a model's weights, in their order, without moving statistics.

    Args:
        model: a built model.
        without: layers whose moving statistics are left out. They do not change the statistics of
            the data, and replicas of one model may have different moving statistics.
    """
    moving = {id(v) for layer in without for v in layer.non_trainable_variables}
    hashed = hashlib.sha256()
    for weight in model.weights:
        if id(weight) not in moving:
            value = np.ascontiguousarray(to_numpy(weight))
            hashed.update(f"{value.dtype}{value.shape}".encode())
            hashed.update(value.tobytes())
    return hashed.hexdigest()
