"""SavedModels and TFLite files in OpenVINO."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from keras_norm.export.errors import RunnerError
from keras_norm.export.extras import require
from keras_norm.export.formats.saved_model import saved_model_signatures, write_numbered
from keras_norm.export.formats.tflite import tflite_signature
from keras_norm.export.runners.worker_runner import WorkerRunner


class OpenVINORunner(WorkerRunner):
    """A SavedModel or a TFLite file in OpenVINO: a second opinion, by other code than TensorFlow's.

    It computes in float32, also what the file has in float64 or float16, and int64 in 32 bits. What
    it cannot read says nothing about the file, which TensorFlow or LiteRT may run. Reductions are
    kept apart from what comes after them, with which OpenVINO would compute them wrongly.

    Raises:
        ImportError: OpenVINO is not installed, or for a TFLite file LiteRT is not.
    """

    name = "OpenVINO"
    script = "run_openvino.py"

    def _load(self) -> None:
        require("openvino")
        try:
            with self._readable() as request:
                self._load_reporting(request)
        except (OSError, ValueError) as error:
            raise RunnerError(f"{self._subject}: {error}") from error

    @contextlib.contextmanager
    def _readable(self) -> Iterator[dict[str, Any]]:
        """The worker's request: what to read, and the tensors in it that the signature names."""
        if not self.path.is_dir():
            inputs, outputs = tflite_signature(self.path, self.signature_name)
            yield {"path": str(self.path), "inputs": inputs, "outputs": outputs}
            return
        with tempfile.TemporaryDirectory() as folder:
            inputs, outputs = write_numbered(self.path, self.signature_name, pathlib.Path(folder))
            yield {"path": folder, "inputs": inputs, "outputs": outputs}

    def signatures(self) -> list[str]:
        """Names of the signatures in the file that OpenVINO can be led to."""
        if not self.path.is_dir():
            return [self.signature_name]
        return saved_model_signatures(self.path)
