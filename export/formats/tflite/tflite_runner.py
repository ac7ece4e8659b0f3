"""Run TFLite files in LiteRT, and in TensorFlow Lite Micro for microcontrollers."""

import dataclasses
import pathlib

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.artifact_format import Source, sources_in_runtime
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.formats.tflite.tflite_file import read_signature, read_tflite
from keras_norm.export.packages import require
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.typing import Json

# Bytes of the smallest and largest memory arena that `MicroRunner` tries; each arena is twice as
# large as the arena before.
SMALLEST, LARGEST = 2**12, 2**24
# Error texts that mean that the memory arena is too small. After any other error a larger arena
# does not help.
TOO_SMALL = ("the memory arena is too small for the file", "was killed by")


class TFLiteRunner(WorkerRunner):
    """Run a TFLite file in LiteRT, and resize its input tensors to the inputs of each call.

    Raises:
        ImportError: LiteRT is not installed.
    """

    name = "TFLite"
    script = "tflite/run_tflite.py"

    def _load(self) -> None:
        require("tflite")
        self._report = self._load_file({"path": str(self.path), "signature": self.signature_name})

    def ops(self) -> dict[str, list[str]]:
        """Return names of output tensors by operation: {"FULLY_CONNECTED": ["dense/add"]}.

        The operations in loop bodies are included.
        """
        return dict(self._report["ops"])

    def signatures(self) -> list[str]:
        """Return the names of the signatures in the file."""
        return list(self._report["signatures"])


class MicroRunner(WorkerRunner):
    """Run the main graph of a TFLite file in TensorFlow Lite Micro, on this machine.

    TensorFlow Lite Micro has static dimensions only: a dynamic dimension of the file becomes 1. All
    tensors are stored in one arena. The runner tries increasing sizes of the arena.

    Attributes:
        arena: bytes of the smallest tried arena in which the file ran.

    Raises:
        ImportError: tflite-micro or LiteRT is not installed.
    """

    name = "TFLite Micro"
    script = "tflite/run_micro.py"
    arena: int

    def _load(self) -> None:
        require("micro")
        inputs, outputs = (
            {name: tensor.index for name, tensor in tensors.items()}
            for tensors in read_signature(self.path, self.signature_name)
        )
        options = {"path": str(self.path), "inputs": inputs, "outputs": outputs}
        self.arena = SMALLEST
        while True:
            # The runtime may write beyond the end of a small arena, so each try has a new process.
            try:
                self._load_file(options | {"arena": self.arena})
                return
            except RunnerError as error:
                if not any(reason in str(error) for reason in TOO_SMALL):
                    raise
                if self.arena >= LARGEST:
                    cause = str(error).removeprefix(f"{self._subject}: ")
                    raise RunnerError(
                        f"{self._subject}: no memory arena of up to {LARGEST} bytes is enough: "
                        f"{cause}"
                    ) from error
                self.arena *= 2
                self.worker = self.start(self.path, timeout=self.worker.timeout)


def tflite_sources(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    """Return the runtimes that can run a TFLite file, each with a function that opens the file."""
    require("tflite")
    file = read_tflite(path)
    precision = coarsest(file.numbers)
    sources = list(sources_in_runtime(TFLiteRunner, path, name, precision))
    if not file.computes_in_integers:
        # Do not run an int8 file in OpenVINO: for one file, OpenVINO's outputs had three times the
        # error of LiteRT's outputs (docs/guides/runtimes.md).
        sources += sources_in_runtime(OpenVINORunner, path, name, precision, "openvino")
    if file.is_single_step:
        sources += sources_in_runtime(MicroRunner, path, name, precision, "micro")
    return tuple(
        dataclasses.replace(source, is_single_step=file.is_single_step) for source in sources
    )


def tflite_options(path: pathlib.Path) -> dict[str, Json]:
    """Return options of `export_tflite` for a new file with the quantization of the given file.

    Raises:
        ValueError: the file computes in integers, so its scales depend on unknown samples.
    """
    file = read_tflite(path)
    if file.computes_in_integers:
        raise ValueError(
            "the exporter cannot write this file again: the file computes in integers, and the "
            "samples that determined its scales are not known"
        )
    return {"step": False, "quantize": file.quantize}
