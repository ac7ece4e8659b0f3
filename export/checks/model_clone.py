"""The clone of the Keras model, for measurements in training mode."""

import functools
from collections.abc import Sequence

import keras
from keras import ops

from keras_norm.clone import clone_for_statistics
from keras_norm.export import signature
from keras_norm.export.compare.arrays import kind_of, to_float64
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Arrays


class ModelClone:
    """A clone of the Keras model without dropout and noise. The model itself does not change.

    A check makes the clone once, at the first measurement that needs it.

    Args:
        model: a built Keras model.
    """

    def __init__(self, model: keras.Model) -> None:
        self._original = model

    @functools.cached_property
    def model(self) -> keras.Model:
        """The cloned Keras model.

        Cloning runs the code of the layers, so it may raise any error. The next access tries again.

        Raises:
            ValueError: the model cannot be rebuilt from its config.
        """
        return clone_for_statistics(self._original)

    @functools.cached_property
    def _state(self) -> Sequence[tuple[keras.Variable, Array]]:
        """The variables that training mode changes, with their values in the original model."""
        return [(v, ops.convert_to_numpy(v)) for v in self.model.non_trainable_variables]

    def restore(self) -> None:
        """Restore the moving statistics and the other variables that training mode changes."""
        for variable, value in self._state:
            variable.assign(value)

    def __call__(self, inputs: Arrays, training: bool) -> Arrays:
        """Return the outputs of the clone, by the output names of the original model.

        Args:
            inputs: arrays (batch, ...) by the input names of the original model.
            training: whether the clone runs in training mode.
        """
        for _, layer in named_layers(self.model):
            if getattr(layer, "stateful", False):
                layer.reset_state()
        # A clone may have other names for its inputs and outputs; their order does not change.
        ordered = [inputs[name] for name in signature.input_specs(self._original)]
        named = dict(zip(signature.input_specs(self.model), ordered, strict=True))
        outputs = map(
            ops.convert_to_numpy, signature.call(self.model, named, training=training).values()
        )
        values = [value if kind_of(value) != "float" else to_float64(value) for value in outputs]
        return dict(zip(signature.output_names(self._original), values, strict=True))
