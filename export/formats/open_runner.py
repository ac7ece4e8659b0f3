"""The runner for a path."""

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
