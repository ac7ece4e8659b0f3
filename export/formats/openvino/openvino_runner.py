"""Run SavedModels and TFLite files in OpenVINO."""

import itertools
import pathlib
import tempfile

import tensorflow as tf

from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile, refuse_unsafe
from keras_norm.export.formats.tflite.tflite_file import read_signature
from keras_norm.export.packages import require
from keras_norm.export.runtimes.worker_runner import WorkerRunner


class OpenVINORunner(WorkerRunner):
    """Run a SavedModel or a TFLite file in OpenVINO, which shares no code with TensorFlow.

    OpenVINO computes float64 and float16 values in float32, and int64 values in 32 bits. A file
    that OpenVINO cannot read is not necessarily wrong: TensorFlow or LiteRT may run it. The worker
    prevents the fusion of reductions with later operations: OpenVINO computes such fusions wrongly.

    Raises:
        ImportError: OpenVINO is not installed; or the file is a TFLite file, and LiteRT is not
            installed.
    """

    name = "OpenVINO"
    script = "openvino/run_openvino.py"

    def _load(self) -> None:
        require("openvino")
        with tempfile.TemporaryDirectory() as folder:
            path, name = self.path, self.signature_name
            if path.is_dir():
                file = SavedModelFile(path)
                refuse_unsafe(file)
                tensors = itertools.chain(*(s.values() for s in file.read_signature(name)))
                if any(tensor.dtype == tf.string for tensor in tensors):
                    raise RunnerError(f"{self._subject}: OpenVINO has no operations on texts")
                inputs, outputs = file.write_numbered(name, pathlib.Path(folder))
                path = pathlib.Path(folder)
            else:
                inputs, outputs = (
                    {known: tensor.tensor for known, tensor in tensors.items()}
                    for tensors in read_signature(path, name)
                )
            self._load_inputs({"path": str(path), "inputs": inputs, "outputs": outputs})

    def signatures(self) -> list[str]:
        """Return the names of the signatures that OpenVINO can run."""
        is_dir = self.path.is_dir()
        return SavedModelFile(self.path).signatures if is_dir else super().signatures()
