"""Run TFLite files in LiteRT, and in TensorFlow Lite Micro for microcontrollers."""

from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.tflite.tflite_file import tflite_ends
from keras_norm.export.optional_packages import require
from keras_norm.export.runtimes.worker_runner import WorkerRunner

# Bytes of the smallest and largest arena that are tried; every next arena is twice as large.
SMALLEST, LARGEST = 2**12, 2**24
# Error texts that a too small arena causes. For other errors a larger arena does not help.
TOO_SMALL = ("the file does not fit in the arena", "was killed by")


class TFLiteRunner(WorkerRunner):
    """A TFLite file in LiteRT's interpreter, resized to each call's shapes.

    Raises:
        ImportError: LiteRT is not installed.
    """

    name = "TFLite"
    script = "tflite/run_tflite.py"

    def _load(self) -> None:
        require("tflite")
        self._info = self._load_file({"path": str(self.path), "signature": self.signature_name})

    def ops(self) -> dict[str, list[str]]:
        """Return the operations of the file, also in loop bodies: operation -> output tensors."""
        return dict(self._info["ops"])

    def signatures(self) -> list[str]:
        """Return the names of the signatures in the file."""
        return list(self._info["signatures"])


class MicroRunner(WorkerRunner):
    """The main graph of a TFLite file in TensorFlow Lite Micro, on this machine.

    TensorFlow Lite Micro has static dimensions only: a dynamic dimension of the file becomes 1. All
    tensors are stored in one arena. The runner tries increasing sizes of the arena.

    Attributes:
        arena: bytes of the smallest tried arena in which the file ran.

    Raises:
        ImportError: tflite-micro is not installed, or LiteRT is not.
    """

    name = "TFLite Micro"
    script = "tflite/run_micro.py"
    arena: int

    def _load(self) -> None:
        require("micro")
        ends = tflite_ends(self.path, self.signature_name)
        inputs, outputs = ({n: place for n, (place, _) in end.items()} for end in ends)
        request = {"path": str(self.path), "inputs": inputs, "outputs": outputs}
        self.arena = SMALLEST
        while True:
            # The runtime may write beyond the end of a small arena, so each try has a new process.
            try:
                self._load_file(request | {"arena": self.arena})
                return
            except RunnerError as error:
                if not any(reason in str(error) for reason in TOO_SMALL):
                    raise
                if self.arena >= LARGEST:
                    said = str(error).removeprefix(f"{self._subject}: ")
                    raise RunnerError(
                        f"{self._subject}: it runs in no arena of up to {LARGEST} bytes: {said}"
                    ) from error
                self.arena *= 2
                self.worker = self.start(self.path, timeout=self.worker.timeout)
