"""TFLite files in LiteRT."""

from keras_norm.export.extras import require
from keras_norm.export.runners.worker_runner import WorkerRunner


class TFLiteRunner(WorkerRunner):
    """A TFLite file in LiteRT's interpreter, resized to each call's shapes.

    Raises:
        ImportError: LiteRT is not installed.
    """

    name = "TFLite"
    script = "run_tflite.py"

    def _load(self) -> None:
        require("tflite")
        self._info = self._load_file({"path": str(self.path), "signature": self.signature_name})

    def ops(self) -> dict[str, list[str]]:
        """Operation -> tensors it writes, in the main graph and in loop bodies."""
        return dict(self._info["ops"])

    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return list(self._info["signatures"])
