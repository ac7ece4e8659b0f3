"""Copy the value of a variable to a NumPy array."""

import keras
import numpy as np

from keras_norm.typing import Array


def to_numpy(variable: keras.Variable) -> Array:
    """Copy the value of a variable to a NumPy array.

    `keras.ops.convert_to_numpy` of a variable shows a DeprecationWarning of NumPy to the user.
    """
    return np.array(np.asarray(variable))
