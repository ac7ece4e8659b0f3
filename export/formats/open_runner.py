"""Open an exported file or folder of any format in its runner."""

import os
import pathlib

import keras

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.registry import format_of, titles
from keras_norm.export.runtimes.worker_runner import WorkerRunner
from keras_norm.export.signature import SERVING_DEFAULT


def open_runner(
    artifact: str | os.PathLike[str],
    model: keras.Model | None = None,
    signature_name: str = SERVING_DEFAULT,
) -> WorkerRunner:
    """Open an exported file or folder in the runner of its format.

    Args:
        artifact: a SavedModel's folder, a folder of numbered versions (the highest version is
            opened), a TFLite file of any name, or an .onnx file.
        model: the Keras model from which the artifact was exported, or None. If a model is given,
            the names of its inputs are compared with the artifact's.
        signature_name: name of the signature to run.

    Raises:
        RunnerError: the artifact is missing, damaged or of an unknown format, or its inputs differ
            from the inputs of `model`.
        ValueError: `artifact` is not a path, or `signature_name` is not a string.
    """
    if not isinstance(artifact, str | os.PathLike):
        raise ValueError(f"artifact is the path of an exported file; received {artifact!r}")
    if not isinstance(signature_name, str):
        raise ValueError(f"signature_name is the name of a signature; received {signature_name!r}")
    path = pathlib.Path(artifact)
    if not path.exists():
        raise RunnerError(f"{path}: no such file or folder")
    found = format_of(path)
    if found is None:
        hint = ". Load it: keras.saving.load_model(path)" if path.suffix == ".keras" else ""
        raise RunnerError(f"{path} is not {titles()}{hint}")
    runner = found.open(path, signature_name)
    if model is not None:
        try:
            signature.require_names(runner.inputs, list(signature.input_specs(model)), "the model")
        except ValueError as error:
            runner.close()
            raise RunnerError(f"{path} is no export of this model: {error}") from error
    return runner
