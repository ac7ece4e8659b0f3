"""Run a Keras model in memory: its outputs are the expected outputs of all exported files."""

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping

import keras
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.arrays import to_numpy
from keras_norm.export.errors import one_line
from keras_norm.export.model.first_layer import layer_names
from keras_norm.export.runtimes.runner import Runner
from keras_norm.keras_internals import nodes_in_order
from keras_norm.named_layers import named_layers
from keras_norm.typing import Array, Arrays, Tensor


class KerasRunner(Runner):
    """Run a Keras model in memory, in inference mode, as `model.predict` does on its backend.

    On TensorFlow, a model with `TimeDistributed` runs eagerly: in a graph with a dynamic time
    dimension, Keras' `TimeDistributed` returns wrong outputs. JAX multiplies matrices in full
    float32 precision here. On GPUs and TPUs its default is coarser.

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
        self._seconds = 0.0
        self._on_tensorflow = keras.backend.backend() == "tensorflow"
        if self._on_tensorflow:
            function = signature.named_function(lambda x: signature.call(model, x), self.inputs)
            self._function = function.get_concrete_function()
            self._outputs = self._function.structured_outputs
            self._is_eager = any(
                isinstance(layer, keras.layers.TimeDistributed) for _, layer in named_layers(model)
            )
        else:
            self._named = NamedModel(model)

    def _run(self, inputs: Arrays) -> Arrays:
        start = time.perf_counter()
        if self._on_tensorflow:
            outputs = self._run_on_tensorflow(inputs)
        else:
            with _full_precision():
                outputs = self._named.predict_on_batch(inputs)
        # Restore the order of the outputs: JAX sorts the outputs of a compiled function by name.
        arrays = {name: to_numpy(outputs[name]) for name in signature.output_names(self.model)}
        self._seconds = time.perf_counter() - start
        return arrays

    def _run_on_tensorflow(self, inputs: Arrays) -> dict[str, Tensor]:
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
        return dict(outputs)

    @property
    def variables_read(self) -> set[int]:
        """Return the `id` of every variable that the model reads on TensorFlow."""
        return {id(variable) for variable in self._function.graph.variables}

    def variable_digests(self) -> dict[str, str]:
        """Return each weight's SHA-256 digest by number and path, such as "0: dense/kernel"."""
        return {
            f"{k}: {weight.path}": hashlib.sha256(to_numpy(weight).tobytes()).hexdigest()
            for k, weight in enumerate(self.model.weights)
        }

    def layer_outputs(self, inputs: Arrays) -> dict[str, list[Array]]:
        """Return the outputs of every layer by name (`layer_names`), in topological order."""
        nodes = nodes_in_order(self.model)
        every = keras.Model(list(self.model.inputs), [list(node.outputs) for node in nodes])
        # On JAX a compiled call is faster: JAX compiles each operation of an eager call separately.
        # On TensorFlow a single eager call is faster.
        every.run_eagerly = self._on_tensorflow
        tensors = [inputs[name] for name in self.inputs]
        with _full_precision():
            outputs = every.predict_on_batch(tensors)
        return {
            name: [to_numpy(tensor) for tensor in tensors]
            for name, tensors in zip(layer_names(nodes), outputs, strict=True)
        }

    def seconds(self) -> float:
        """Return how many seconds the last run of the model took."""
        return self._seconds


class NamedModel(keras.Model):
    """A model with a dict of inputs by name, which returns a dict of outputs by name.

    Args:
        model: a functional or a built sequential model.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__()
        self.named = model
        self.built = True
        self.run_eagerly = model.run_eagerly

    def call(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs of the model by name."""
        return signature.call(self.named, inputs)


@contextlib.contextmanager
def restored_variables(model: keras.Model) -> Iterator[None]:
    """Restore all variables of the model, including seeds and metrics, after a `with` block."""
    before = [keras.ops.convert_to_numpy(variable) for variable in model.variables]
    try:
        yield
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)


def _full_precision() -> contextlib.AbstractContextManager[None]:
    """Return a context in which JAX multiplies float32 matrices in float32."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    precision: contextlib.AbstractContextManager[None] = jax.default_matmul_precision("float32")
    return precision
