"""Run a Keras model on the backend of this process, such as JAX or PyTorch."""

import contextlib
import time
from collections import Counter
from collections.abc import Mapping

import keras

from keras_norm.export import signature
from keras_norm.export.compare.arrays import to_numpy
from keras_norm.export.model.keras_runner import digest_variables
from keras_norm.export.runtimes.runner import Runner
from keras_norm.keras_internals import nodes_in_order
from keras_norm.typing import Array, Arrays, Tensor


class BackendRunner(Runner):
    """Run a Keras model in memory, in inference mode, as `model.predict` does on its backend.

    JAX multiplies matrices in full float32 precision here. On GPUs and TPUs its default is coarser.

    Args:
        model: a functional or a built sequential model.
    """

    name = "Keras"
    path = None

    def __init__(self, model: keras.Model) -> None:
        self.inputs = signature.input_specs(model)
        self._model = model
        self._named = NamedModel(model)
        self._seconds = 0.0

    def _run(self, inputs: Arrays) -> Arrays:
        start = time.perf_counter()
        with _full_precision():
            outputs = self._named.predict_on_batch(inputs)
        self._seconds = time.perf_counter() - start
        # JAX sorts the outputs of a compiled function by name.
        return {name: to_numpy(outputs[name]) for name in signature.output_names(self._model)}

    def seconds(self) -> float:
        """Return the seconds of the last run."""
        return self._seconds

    def variable_digests(self) -> dict[str, str]:
        """Return a digest of each weight by name, without seeds and metrics."""
        return digest_variables(self._model.weights)

    def layer_outputs(self, inputs: Arrays) -> dict[str, list[Array]]:
        """Return the outputs of each layer; see the function `layer_outputs`."""
        with _full_precision():
            return layer_outputs(self._model, inputs)

    def close(self) -> None:
        """Do nothing, because the caller owns the model."""


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


def _full_precision() -> contextlib.AbstractContextManager[None]:
    """Return a context in which JAX multiplies float32 matrices in float32."""
    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    precision: contextlib.AbstractContextManager[None] = jax.default_matmul_precision("float32")
    return precision


def layer_outputs(model: keras.Model, inputs: Arrays) -> dict[str, list[Array]]:
    """Return the outputs of every layer of a model in inference mode, in topological order.

    Args:
        model: a functional or a built sequential model.
        inputs: arrays by input name.

    Returns:
        Arrays by the name of the layer. The second call of a layer has the name "dense (2)".
    """
    nodes = nodes_in_order(model)
    every = keras.Model(list(model.inputs), [list(node.outputs) for node in nodes])
    # JAX compiles each operation of an eager call: to compile the model is faster. On TensorFlow a
    # single eager call is faster.
    every.run_eagerly = keras.backend.backend() == "tensorflow"
    tensors = [inputs[name] for name in signature.input_specs(model)]
    counts: Counter[str] = Counter()
    found = {}
    for node, outputs in zip(nodes, every.predict_on_batch(tensors), strict=True):
        name = str(node.operation.name)
        counts[name] += 1
        number = f" ({counts[name]})" if counts[name] > 1 else ""
        found[name + number] = [to_numpy(tensor) for tensor in outputs]
    return found
