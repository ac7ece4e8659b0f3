"""The runner for a path."""

import os
import pathlib

import keras

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner
from keras_norm.export.formats.saved_model.saved_model_file import saved_model_folder
from keras_norm.export.formats.saved_model.saved_model_runner import SavedModelRunner
from keras_norm.export.formats.tflite.tflite_file import is_tflite
from keras_norm.export.formats.tflite.tflite_runner import TFLiteRunner
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import SERVING_DEFAULT


def open_runner(
    artifact: str | os.PathLike[str],
    model: keras.Model | None = None,
    signature_name: str = SERVING_DEFAULT,
) -> WorkerRunner:
    """Open the runner that fits an exported file or folder.

    Args:
        artifact: a SavedModel's folder, a folder of numbered versions (the highest is taken), a
            TFLite file by any name, or an .onnx file.
        model: the Keras model it should be an export of; its inputs are then compared by name.
        signature_name: which of its signatures to run.

    Raises:
        RunnerError: it is none of these, is damaged, or takes other inputs than `model`.
        ValueError: `artifact` is no path, or `signature_name` no text.
    """
    if not isinstance(artifact, str | os.PathLike):
        raise ValueError(f"artifact is the path of an exported file; received {artifact!r}")
    if not isinstance(signature_name, str):
        raise ValueError(f"signature_name is the name of a signature; received {signature_name!r}")
    path = pathlib.Path(artifact)
    runner: WorkerRunner
    if not path.exists():
        raise RunnerError(f"{path}: no such file or folder")
    if is_tflite(path):
        runner = TFLiteRunner(path, signature_name)
    elif path.suffix == ".onnx":
        runner = ONNXRunner(path, signature_name)
    else:
        try:
            runner = SavedModelRunner(saved_model_folder(path), signature_name)
        except ValueError as error:
            raise RunnerError(str(error)) from error
    if model is not None:
        try:
            signature.require_names(runner.inputs, list(signature.input_specs(model)), "the model")
        except ValueError as error:
            runner.close()
            raise RunnerError(f"{path} is no export of this model: {error}") from error
    return runner
