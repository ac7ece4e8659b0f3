"""Reorder the gates of a weight: each library has another order."""

from collections.abc import Sequence

import numpy as np

from keras_norm.typing import Array


def reorder(weights: Array, order: Sequence[int], axis: int = 0) -> Array:
    """Reorder the blocks of gates in a weight.

    ::

        block k of the result = block order[k] of the weight

    Args:
        weights: array with the gates side by side along `axis`, in blocks of equal size.
        order: index of the other library's gate for each gate of Keras.
        axis: axis of the gates.

    Example:
        >>> reorder(np.array([1.0, 1.0, 2.0, 2.0]), (1, 0))
        array([2., 2., 1., 1.])
    """
    blocks = np.split(weights, len(order), axis)
    return np.concatenate([blocks[k] for k in order], axis)
