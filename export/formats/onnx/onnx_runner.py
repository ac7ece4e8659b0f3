"""Run ONNX files in ONNX Runtime."""

from keras_norm.export.errors import RunnerError
from keras_norm.export.optional_packages import require
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import SERVING_DEFAULT


class ONNXRunner(WorkerRunner):
    """An ONNX file in ONNX Runtime, on the CPU, which shares no code with TensorFlow.

    Raises:
        ImportError: onnx or onnxruntime is not installed.
    """

    name = "ONNX"
    script = "onnx/run_onnx.py"

    def _load(self) -> None:
        require("onnx")
        if self.signature_name != SERVING_DEFAULT:
            raise RunnerError(f"{self._subject}: an ONNX file has no signatures to choose from")
        self._info = self._load_file({"path": str(self.path)})

    def ops(self) -> dict[str, list[str]]:
        """Return the operations, also in loop bodies: operation -> its nodes.

        An operation of a domain other than ONNX's is named "domain.Op".
        """
        return dict(self._info["ops"])
