"""TFLite files in LiteRT."""

import importlib.util

from keras_norm.export.errors import RunnerError
from keras_norm.export.runners.worker_runner import WorkerRunner
from keras_norm.export.signature import TensorSpec
from keras_norm.export.worker_process import WorkerProcess


class TFLiteRunner(WorkerRunner):
    """A TFLite file in LiteRT's interpreter, resized to each call's shapes.

    Raises:
        ImportError: LiteRT is not installed.
    """

    name = "TFLite"

    def _start(self, timeout: float) -> WorkerProcess:
        require_litert()
        if not self.path.is_file():
            raise RunnerError(f"{self._subject}: no such file")
        request = {"path": str(self.path), "signature": self.signature_name}
        worker = WorkerProcess("run_tflite.py", request, subject=self._subject, timeout=timeout)
        self.inputs = {
            name: TensorSpec(name, tuple(entry["shape"]), entry["dtype"])
            for name, entry in worker.info["inputs"].items()
        }
        return worker

    def ops(self) -> dict[str, list[str]]:
        """Operation -> tensors it writes, in the main graph and in loop bodies."""
        return dict(self._worker.info["ops"])

    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return list(self._worker.info["signatures"])


def require_litert() -> None:
    """Raise ImportError if LiteRT, which runs TFLite files, is not installed."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise ImportError(
            "TFLite files are run by LiteRT, which is not installed: "
            'pip install "keras-norm[tflite]"'
        )
