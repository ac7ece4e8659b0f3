"""Run ONNX files in ONNX Runtime."""

import pathlib

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.artifact_format import Source, sources_in_runtime
from keras_norm.export.packages import require
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import SERVING_DEFAULT


class ONNXRunner(WorkerRunner):
    """Run an ONNX file on the CPU in ONNX Runtime, which shares no code with TensorFlow.

    Raises:
        ImportError: onnx or onnxruntime is not installed.
    """

    name = "ONNX"
    script = "onnx/run_onnx.py"

    def _load(self) -> None:
        require("onnx")
        if self.signature_name != SERVING_DEFAULT:
            raise RunnerError(
                f"{self._subject}: an ONNX file has the signature {SERVING_DEFAULT} only; received "
                f"{self.signature_name}"
            )
        self._report = self._load_file({"path": str(self.path)})

    def ops(self) -> dict[str, list[str]]:
        """Return the names of all nodes by operation, such as {"MatMul": ["dense/MatMul"]}.

        The nodes in loop bodies are included. An operation of a domain other than ONNX's is named
        "domain.Op".
        """
        return dict(self._report["ops"])


def onnx_sources(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    """Return the runtimes that can run an .onnx file, each with a function that opens the file."""
    require("onnx")
    from keras_norm.export.formats.onnx import onnx_graph

    precisions = onnx_graph.precisions(onnx_graph.read(path))
    return sources_in_runtime(ONNXRunner, path, name, coarsest(precisions))
