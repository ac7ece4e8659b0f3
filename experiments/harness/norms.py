"""The norms that the static studies compare, by the names that they have on the page."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

import keras_norm


@keras.saving.register_keras_serializable("keras_norm_experiments")
class Centring(keras.layers.Layer):
    """y = x - mean(x) over the features of a sample: the half of a LayerNorm that divides not."""

    def call(self, inputs: Any) -> Any:
        """Subtract the mean."""
        return inputs - ops.mean(inputs, axis=-1, keepdims=True)


# Batch statistics average over the last so many samples, whatever the batch size. Keras' momentum
# of 0.99 would average over 50,000 at a batch of 512, and lag behind the weights for epochs.
REMEMBERED = 5000

# By name, from the batch size.
NORMS: dict[str, Callable[[int], keras.layers.Layer]] = {
    "none": lambda batch: keras.layers.Activation("linear"),
    "BN": lambda batch: keras_norm.BatchNormalization(
        epsilon=1e-5, momentum=1 - batch / REMEMBERED
    ),
    "LN": lambda batch: keras_norm.LayerNormalization(epsilon=1e-5),
    "LN without affine": lambda batch: keras_norm.LayerNormalization(
        epsilon=1e-5, center=False, scale=False
    ),
    "variance only": lambda batch: keras_norm.VarianceNormalization(epsilon=1e-5),
    "RMS": lambda batch: keras_norm.RMSNormalization(epsilon=1e-5),
    "centred only": lambda batch: Centring(),
}
