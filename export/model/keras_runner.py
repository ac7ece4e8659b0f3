"""Run the Keras model itself; every other runner is compared with it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.errors import TextError, one_line
from keras_norm.export.runtimes.runner import Arrays, Runner
from keras_norm.named_layers import named_layers


class KerasRunner(Runner):
    """Run a Keras model in memory, in inference mode, as `model.predict` does.

    A model with `TimeDistributed` runs eagerly: in a graph with a dynamic time dimension, Keras'
    `TimeDistributed` is wrong.

    Args:
        model: a functional or a built sequential model.
    """

    name = "Keras"
    path = None

    def __init__(self, model: keras.Model) -> None:
        self.inputs = signature.input_specs(model)
        self._weights = model.weights
        function = signature.named_function(lambda x: signature.call(model, x), self.inputs)
        self._function = function.get_concrete_function()
        self._outputs = self._function.structured_outputs
        self._call: Any = self._function
        if any(isinstance(layer, keras.layers.TimeDistributed) for _, layer in named_layers(model)):
            self._call = lambda x: signature.call(model, x)

    def _run(self, inputs: Arrays) -> Arrays:
        tensors = {n: tf.cast(a, self.inputs[n].dtype) for n, a in inputs.items()}
        try:
            outputs = self._call(tensors)
        except tf.errors.OpError as error:  # for example, an id that is too large for an Embedding
            raise ValueError(
                f"the Keras model does not take the data: {one_line(error)}"
            ) from error
        for name, tensor in outputs.items():
            # A convolution may return its inputs if they have fewer steps than its kernel.
            if not tensor.shape.is_compatible_with(self._outputs[name].shape):
                raise ValueError(
                    f"the Keras model gives {tuple(tensor.shape)} for the output {name!r}, whose "
                    f"shape is {tuple(self._outputs[name].shape)}"
                )
        return {name: _as_numpy(name, tensor) for name, tensor in outputs.items()}

    @property
    def variables_read(self) -> set[int]:
        """Return the `id` of every variable that the model reads."""
        return {id(variable) for variable in self._function.graph.variables}

    def variable_digests(self) -> dict[str, str]:
        """Return a digest of each weight by name, without seeds and metrics."""
        return digest_variables(self._weights)

    def close(self) -> None:
        """Do nothing, because the caller owns the model."""


def digest_variables(variables: Sequence[keras.Variable]) -> dict[str, str]:
    """Return a digest of each variable by name, in the form of `Runner.variable_digests`."""
    arrays = [keras.ops.convert_to_numpy(variable) for variable in variables]
    return {
        f"{k}: {variable.path}": hashlib.sha256(array.tobytes()).hexdigest()
        for k, (variable, array) in enumerate(zip(variables, arrays, strict=True))
    }


def _as_numpy(name: str, tensor: Any) -> np.ndarray:
    if tensor.dtype == tf.string:
        raise TextError(
            f'output "{name}" is text, and numbers alone are compared: leave it out of the model '
            "that is checked, keras.Model(model.inputs, the other outputs)"
        )
    return np.asarray(tf.cast(tensor, "float32") if tensor.dtype == tf.bfloat16 else tensor)
