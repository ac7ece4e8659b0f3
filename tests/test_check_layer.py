"""check_layer fails for a layer that breaks the contract, and names the failed check."""

import keras
import numpy as np
import pytest

from tests.check_layer import check_layer


@keras.saving.register_keras_serializable("keras_norm")
class Sound(keras.layers.Layer):
    """Multiplies by a trainable gain and keeps the contract; each subclass fails one check."""

    def __init__(self, gain=1.0, **kwargs):
        super().__init__(**kwargs)
        self.gain = gain
        self.supports_masking = True

    def build(self, input_shape):
        self.scale = self.add_weight(
            name="scale", shape=input_shape[-1:], initializer=keras.initializers.Constant(self.gain)
        )

    def call(self, inputs):
        return inputs * self.scale

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "gain": self.gain}


@keras.saving.register_keras_serializable("elsewhere")
class RegisteredElsewhere(Sound):
    pass


@keras.saving.register_keras_serializable("keras_norm")
class TakesAnything(Sound):
    def __init__(self, gain=1.0, no_such_argument=None, **kwargs):
        super().__init__(gain, **kwargs)


@keras.saving.register_keras_serializable("keras_norm")
class ForgetsItsGain(Sound):
    @classmethod
    def from_config(cls, config):
        config.pop("gain")
        return cls(**config)


@keras.saving.register_keras_serializable("keras_norm")
class ConfigNotJson(Sound):
    def get_config(self):
        return {**super().get_config(), "gain": np.float32(self.gain)}


@keras.saving.register_keras_serializable("keras_norm")
class ChangesItsGain(Sound):
    def build(self, input_shape):
        super().build(input_shape)
        self.gain = [self.gain]


@keras.saving.register_keras_serializable("keras_norm")
class HasAnotherWeight(Sound):
    def build(self, input_shape):
        super().build(input_shape)
        self.extra = self.add_weight(name="extra", shape=(), trainable=False)


@keras.saving.register_keras_serializable("keras_norm")
class DropsTheMask(Sound):
    def compute_mask(self, inputs, mask=None):
        return None


@keras.saving.register_keras_serializable("keras_norm")
class DeclaresAnotherShape(Sound):
    def compute_output_shape(self, input_shape):
        return (*input_shape, 1)

    def compute_output_spec(self, inputs, **kwargs):
        return keras.KerasTensor(inputs.shape, inputs.dtype)


@keras.saving.register_keras_serializable("keras_norm")
class ReturnsFloat32(Sound):
    def call(self, inputs):
        return keras.ops.cast(super().call(inputs), "float32")


@keras.saving.register_keras_serializable("keras_norm")
class FixesTheBatch(Sound):
    def call(self, inputs):
        return super().call(inputs) + np.zeros((4, 1, 1), "float32")


@keras.saving.register_keras_serializable("keras_norm")
class IgnoresItsWeight(Sound):
    def call(self, inputs):
        return inputs + 0 * self.scale


def check(cls):
    check_layer(cls, {"gain": 2.0}, (4, 3, 5), expected_trainable=1, expected_non_trainable=0)


def test_a_correct_layer_passes():
    check(Sound)


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (RegisteredElsewhere, "registered under the package's name"),
        (TakesAnything, "unknown argument refused by name"),
        (ForgetsItsGain, "config round trip"),
        (ConfigNotJson, "JSON round trip"),
        (ChangesItsGain, "constructor attributes unchanged"),
        (HasAnotherWeight, "non-trainable weight count"),
        (DropsTheMask, "mask passed through"),
        (DeclaresAnotherShape, "compute_output_shape"),
        (FixesTheBatch, "dynamic batch"),
        (ReturnsFloat32, "policy mixed_float16"),
        (IgnoresItsWeight, "one step of fit"),
    ],
)
def test_the_failed_check_is_named(cls, name):
    with pytest.raises(AssertionError, match=f"check_layer, {name}"):
        check(cls)
