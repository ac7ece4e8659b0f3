"""SavedModels in TensorFlow."""

import dataclasses
from collections.abc import Mapping

from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.saved_model import (
    GraphTensor,
    saved_model_ops,
    saved_model_signature,
    saved_model_signatures,
)
from keras_norm.export.runners.worker_runner import WorkerRunner
from keras_norm.export.signature import TensorSpec


class SavedModelRunner(WorkerRunner):
    """A SavedModel in a TensorFlow process that can import neither Keras nor this package."""

    name = "SavedModel"
    script = "run_saved_model.py"

    def _load(self) -> None:
        try:
            inputs, outputs = saved_model_signature(self.path, self.signature_name)
        except (OSError, ValueError) as error:
            raise RunnerError(f"{self._subject}: {error}") from error
        self.inputs = fixed_specs(inputs, self._subject)
        self.worker.load(
            {
                "path": str(self.path),
                "signature": self.signature_name,
                "inputs": {n: dataclasses.asdict(t) for n, t in inputs.items()},
                "outputs": {n: dataclasses.asdict(t) for n, t in outputs.items()},
            }
        )

    def ops(self) -> dict[str, list[str]]:
        """Operation -> nodes of the graph and its functions."""
        return saved_model_ops(self.path)

    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return saved_model_signatures(self.path)


def fixed_specs(inputs: Mapping[str, GraphTensor], subject: str) -> dict[str, TensorSpec]:
    """The inputs of a SavedModel's signature as a runner's.

    Args:
        inputs: name -> tensor.
        subject: what has them, for the message.

    Raises:
        RunnerError: one of them may have any number of axes.
    """
    specs = {}
    for name, tensor in inputs.items():
        if tensor.shape is None:
            raise RunnerError(f'{subject}: input "{name}" has no fixed number of axes')
        specs[name] = TensorSpec(name, tensor.shape, tensor.dtype)
    return specs
