"""SavedModels and TFLite files in OpenVINO."""

import pathlib
import tempfile

from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.saved_model.saved_model_runner import refuse_unsafe
from keras_norm.export.formats.tflite.tflite_file import tflite_ends
from keras_norm.export.optional_packages import require
from keras_norm.export.runtimes.worker_runner import WorkerRunner


class OpenVINORunner(WorkerRunner):
    """A SavedModel or a TFLite file in OpenVINO: a second opinion, by other code than TensorFlow's.

    It computes in float32, also what the file has in float64 or float16, and int64 in 32 bits. What
    it cannot read says nothing about the file, which TensorFlow or LiteRT may run. Reductions are
    kept apart from what comes after them, with which OpenVINO would compute them wrongly.

    Raises:
        ImportError: OpenVINO is not installed, or for a TFLite file LiteRT is not.
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
                inputs, outputs = file.write_numbered(name, pathlib.Path(folder))
                path = pathlib.Path(folder)
            else:
                ends = tflite_ends(path, name)
                inputs, outputs = ({n: tensor for n, (_, tensor) in end.items()} for end in ends)
            self._load_reporting({"path": str(path), "inputs": inputs, "outputs": outputs})

    def signatures(self) -> list[str]:
        """Names of the signatures in the file that OpenVINO can be led to."""
        is_dir = self.path.is_dir()
        return SavedModelFile(self.path).signatures if is_dir else super().signatures()
