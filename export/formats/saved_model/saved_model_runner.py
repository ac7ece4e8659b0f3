"""Run SavedModels in Python's TensorFlow and through TensorFlow's C API."""

import pathlib
from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.artifact_format import Source, sources_in_runtime
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile, refuse_unsafe
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.runtimes.runner import convert_inputs
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.typing import Array, Arrays, TensorLike
from keras_norm_verify.saved_model import saved_model_folder


class SavedModelRunner(WorkerRunner):
    """Run a SavedModel in a TensorFlow process that can import neither Keras nor this package."""

    name = "SavedModel"
    script = "saved_model/run_saved_model.py"

    def _load(self) -> None:
        file = SavedModelFile(self.path)
        refuse_unsafe(file)
        inputs, outputs = file.read_signature(self.signature_name)
        for name, tensor in inputs.items():
            if tensor.shape.rank is None:
                raise RunnerError(f'{self._subject}: input "{name}" has an unknown rank')
        self.inputs = {n: TensorSpec(n, tuple(t.shape), t.dtype.name) for n, t in inputs.items()}
        options = {"path": str(self.path), "signature": self.signature_name}
        self.worker.load(options | {"inputs": _tensors(inputs), "outputs": _tensors(outputs)})

    def ops(self) -> dict[str, list[str]]:
        """Return the names of all nodes by operation, such as {"MatMul": ["dense/MatMul"]}.

        The nodes in functions are included.
        """
        return SavedModelFile(self.path).ops

    def signatures(self) -> list[str]:
        """Return the names of the signatures in the file."""
        return SavedModelFile(self.path).signatures


class CApiRunner(SavedModelRunner):
    """Run a SavedModel through TensorFlow's C API, the loader that TensorFlow Serving uses.

    The worker never imports Python's TensorFlow.
    """

    name = "SavedModel (C API)"
    script = "saved_model/run_c_api.py"

    def run_at_once(
        self, cases: Sequence[Mapping[str, TensorLike]], threads: int, seconds: float
    ) -> tuple[int, list[Arrays], list[Arrays]]:
        """Run the loaded model from many threads at once, as a server does.

        Raises:
            ValueError, RunnerError: as `__call__`.
        """
        arrays = [convert_inputs(case, self.inputs, self.name) for case in cases]
        calls, lowest, highest = self.worker.call("run_at_once", arrays, threads, seconds)
        return calls, lowest, highest


def _tensors(specs: Mapping[str, tf.TensorSpec]) -> dict[str, tuple[str, str, int]]:
    """Return {name of an input or output: (name of its tensor, dtype, the dtype's C number)}."""
    return {n: (t.name, t.dtype.name, t.dtype.as_datatype_enum) for n, t in specs.items()}


def saved_model_sources(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    """Return the runtimes that can run a SavedModel, each with a function that opens the model.

    In a folder of numbered versions, the highest version is opened.
    """
    folder = saved_model_folder(path)
    file = SavedModelFile(folder)
    file.read_signature()
    if folder != path:
        name = f"{name}/{folder.name}"
    in_tensorflow = sources_in_runtime(SavedModelRunner, folder, name, "float64")
    if file.unsafe_ops:
        # Use one runtime only: every runtime would refuse this SavedModel with the same error.
        return in_tensorflow
    in_c_api = sources_in_runtime(CApiRunner, folder, f"{name} (C API)", "float64")
    if file.multiplies_integers:
        # Do not run an int8 model in OpenVINO: OpenVINO computed wrong outputs for an int8 model
        # (docs/guides/runtimes.md).
        return (*in_tensorflow, *in_c_api)
    in_openvino = sources_in_runtime(OpenVINORunner, folder, name, "float32", "openvino")
    return (*in_tensorflow, *in_c_api, *in_openvino)


def stored_weights(path: pathlib.Path) -> list[Array]:
    """Return the values of all variables of a SavedModel."""
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    names = reader.get_variable_to_shape_map()
    return [reader.get_tensor(name) for name in names if not name.startswith("_CHECKPOINTABLE")]
