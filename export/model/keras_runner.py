"""Run a Keras model in memory: its outputs are the expected outputs of all exported files."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.arrays import to_numpy
from keras_norm.export.errors import one_line
from keras_norm.export.runtimes.runner import Runner
from keras_norm.named_layers import named_layers
from keras_norm.typing import Arrays


class KerasRunner(Runner):
    """Run a Keras model in memory, in inference mode, as `model.predict` does.

    A model with `TimeDistributed` runs eagerly: in a graph with a dynamic time dimension, Keras'
    `TimeDistributed` returns wrong outputs.

    Args:
        model: a functional or a built sequential model.

    Attributes:
        model: the model.
    """

    name = "Keras"
    path = None

    def __init__(self, model: keras.Model) -> None:
        self.inputs = signature.input_specs(model)
        self.model = model
        function = signature.named_function(lambda x: signature.call(model, x), self.inputs)
        self._function = function.get_concrete_function()
        self._outputs = self._function.structured_outputs
        self._is_eager = any(
            isinstance(layer, keras.layers.TimeDistributed) for _, layer in named_layers(model)
        )

    def _run(self, inputs: Arrays) -> Arrays:
        tensors = {n: tf.cast(a, self.inputs[n].dtype) for n, a in inputs.items()}
        try:
            if self._is_eager:
                outputs = signature.call(self.model, tensors)
            else:
                outputs = self._function(tensors)
        # TensorFlow raises an OpError for invalid inputs, such as an id that is too large for an
        # Embedding.
        except tf.errors.OpError as error:
            raise ValueError(f"the Keras model rejects the data: {one_line(error)}") from error
        for name, tensor in outputs.items():
            # Compare the output's shape with the expected shape. A convolution whose kernel is
            # longer than the sequence may return the sequence itself, and raise no error.
            if not tensor.shape.is_compatible_with(self._outputs[name].shape):
                raise ValueError(
                    f"the Keras model returns the shape {tuple(tensor.shape)} for the output "
                    f"{name!r}; expected {tuple(self._outputs[name].shape)}"
                )
        return {name: to_numpy(tensor) for name, tensor in outputs.items()}

    @property
    def variables_read(self) -> set[int]:
        """Return the `id` of every variable that the model reads."""
        return {id(variable) for variable in self._function.graph.variables}

    def variable_digests(self) -> dict[str, str]:
        """Return a digest of each weight by name, without seeds and metrics."""
        return digest_variables(self.model.weights)

    def close(self) -> None:
        """Do nothing, because the caller owns the model."""


def digest_variables(variables: Sequence[keras.Variable]) -> dict[str, str]:
    """Return the SHA-256 digest of each variable's values, by the variable's number and path."""
    arrays = [keras.ops.convert_to_numpy(variable) for variable in variables]
    return {
        f"{k}: {variable.path}": hashlib.sha256(array.tobytes()).hexdigest()
        for k, (variable, array) in enumerate(zip(variables, arrays, strict=True))
    }


@contextlib.contextmanager
def restored_variables(model: keras.Model) -> Iterator[None]:
    """Restore all variables of the model, including seeds and metrics, after a `with` block."""
    before = [keras.ops.convert_to_numpy(variable) for variable in model.variables]
    try:
        yield
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)
