"""The norms that the studies of feedforward networks compare, by their names on the pages."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

import keras_norm


@keras.saving.register_keras_serializable("keras_norm_experiments")
class Centering(keras.layers.Layer):
    """Subtract the mean over the features of each sample: LayerNorm without the division."""

    def call(self, inputs: Any) -> Any:
        """Subtract the mean."""
        return inputs - ops.mean(inputs, axis=-1, keepdims=True)


# Moving statistics average over about this number of samples at every batch size. Keras' momentum
# of 0.99 would average over 50,000 samples at batch size 512, and lag behind the weights.
AVERAGED_SAMPLES = 5000

# Each function returns a norm for a batch size.
NORMS: dict[str, Callable[[int], keras.layers.Layer]] = {
    "none": lambda batch: keras.layers.Activation("linear"),
    "BN": lambda batch: keras_norm.BatchNormalization(
        epsilon=1e-5, momentum=1 - batch / AVERAGED_SAMPLES
    ),
    "LN": lambda batch: keras_norm.LayerNormalization(epsilon=1e-5),
    "LN without affine": lambda batch: keras_norm.LayerNormalization(
        epsilon=1e-5, center=False, scale=False
    ),
    "variance only": lambda batch: keras_norm.VarianceNormalization(epsilon=1e-5),
    "RMS": lambda batch: keras_norm.RMSNormalization(epsilon=1e-5),
    "centered only": lambda batch: Centering(),
}
