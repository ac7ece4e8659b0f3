"""Choose the runner that computes the outputs of a Keras model, on the backend that trained it."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.compare.arrays import absolute_difference, both_nan, largest
from keras_norm.export.model.first_layer import find_first_layer
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.runtimes.runner import Runner
from keras_norm.typing import Array, Arrays

# Models that this process has loaded on TensorFlow, and that its parent process trained on another
# backend, such as JAX. `TRAINED[model]` is ("jax", caller): `caller(name, *arguments)` calls a
# method of the parent process' `KerasRunner`, which runs the model on JAX.
TRAINED: weakref.WeakKeyDictionary[keras.Model, tuple[str, Callable[..., Any]]] = (
    weakref.WeakKeyDictionary()
)


class TrainedRunner(Runner):
    """Run a Keras model in the parent process, on the backend that trained it, such as JAX.

    Args:
        model: the model of this process, a key of `TRAINED`.

    Attributes:
        model: the model of this process, which runs on TensorFlow.
        backend: the backend that trained the model, such as "jax".
    """

    name = "Keras"
    path = None

    def __init__(self, model: keras.Model) -> None:
        self.inputs = signature.input_specs(model)
        self.model = model
        self.backend, self._call = TRAINED[model]

    def _run(self, inputs: Arrays) -> Arrays:
        outputs: Arrays = self._call("__call__", inputs)
        return outputs

    def seconds(self) -> float:
        """Return the seconds of the last run, without the transfers between the processes."""
        return float(self._call("seconds"))

    def variable_digests(self) -> dict[str, str]:
        """Return a digest of each weight by name, without seeds and metrics."""
        return dict(self._call("variable_digests"))

    def find_other_layer(self, inputs: Arrays, share: float) -> str | None:
        """Return the path of the first layer whose outputs differ between TensorFlow and `backend`.

        TensorFlow runs in this process. `backend`, such as "jax", trained the model and runs in the
        parent process. The result is None if no such layer is found.

        Args:
            inputs: arrays by input name.
            share: the tolerance, relative to the largest output of a layer.
        """
        trained = self._call("layer_outputs", inputs)

        def is_right(name: str, outputs: Sequence[Array]) -> bool | None:
            verdicts = [
                bool(np.all(both_nan(e, a) | (absolute_difference(e, a) <= share * largest([e]))))
                for e, a in zip(trained.get(name, ()), outputs, strict=False)
                if e.shape == a.shape
            ]
            return all(verdicts) if verdicts else None

        tensors = [tf.constant(inputs[n], spec.dtype) for n, spec in self.inputs.items()]
        return find_first_layer(self.model, tensors, is_right)


def reference_runner(model: keras.Model) -> Runner:
    """Return the runner of a Keras model. Exported files must have the outputs of this runner.

    Args:
        model: a functional or a built sequential model.

    Raises:
        ValueError: as for `keras_norm.export.signature.input_specs`.
    """
    return TrainedRunner(model) if model in TRAINED else KerasRunner(model)
