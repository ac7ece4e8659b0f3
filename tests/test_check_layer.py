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


def build_with(self, input_shape, change):
    Sound.build(self, input_shape)
    change(self)


def init(self, gain=1.0, no_such_argument=None, **kwargs):
    Sound.__init__(self, gain, **kwargs)


def without_gain(cls, config):
    config.pop("gain")
    return cls(**config)


# For each check, the methods of a subclass that fails it.
FAULTS = {
    "registered under the package's name": {},
    "unknown argument refused by name": {"__init__": init},
    "config round trip": {"from_config": classmethod(without_gain)},
    "JSON round trip": {
        "get_config": lambda self: {**Sound.get_config(self), "gain": np.float32(self.gain)}
    },
    "constructor attributes unchanged": {
        "build": lambda self, shape: build_with(self, shape, lambda s: setattr(s, "gain", [s.gain]))
    },
    "non-trainable weight count": {
        "build": lambda self, shape: build_with(
            self, shape, lambda s: s.add_weight(name="extra", shape=(), trainable=False)
        )
    },
    "mask passed through": {"compute_mask": lambda self, inputs, mask=None: None},
    "compute_output_shape": {
        "compute_output_shape": lambda self, shape: (*shape, 1),
        "compute_output_spec": lambda self, x, **kwargs: keras.KerasTensor(x.shape, x.dtype),
    },
    "dynamic batch": {
        "call": lambda self, inputs: Sound.call(self, inputs) + np.zeros((4, 1, 1), "float32")
    },
    "policy mixed_float16": {
        "call": lambda self, inputs: keras.ops.cast(Sound.call(self, inputs), "float32")
    },
    "one step of fit": {"call": lambda self, inputs: inputs + 0 * self.scale},
}


def check(cls):
    check_layer(cls, {"gain": 2.0}, (4, 3, 5), expected_trainable=1, expected_non_trainable=0)


def test_a_correct_layer_passes():
    check(Sound)


@pytest.mark.parametrize("name", FAULTS)
def test_the_failed_check_is_named(name):
    faulty = type(f"Faulty{list(FAULTS).index(name)}", (Sound,), FAULTS[name])
    package = "keras_norm" if FAULTS[name] else "elsewhere"
    keras.saving.register_keras_serializable(package)(faulty)
    with pytest.raises(AssertionError, match=f"check_layer, {name}"):
        check(faulty)
