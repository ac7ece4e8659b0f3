"""Open an exported file or folder in its runtime."""

import os
import pathlib
from typing import cast

import keras

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.format_registry import FORMATS
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm_verify.golden_cases import GoldenCasesError
from keras_norm_verify.runtimes import require_known


def open_runner(
    artifact: str | os.PathLike[str],
    model: keras.Model | None = None,
    signature_name: str = SERVING_DEFAULT,
    runtime: str | None = None,
) -> Runner:
    """Open an exported file as a Python function: dict of inputs -> dict of outputs.

    Args:
        artifact: a SavedModel's folder, a folder of numbered versions (the highest version is
            opened), a TFLite file of any name, or an .onnx file.
        model: the Keras model from which the artifact was exported, or None. If a model is given,
            the names of its inputs are compared with the artifact's.
        signature_name: name of the signature to run.
        runtime: None for the runtime of the format: TensorFlow, LiteRT or ONNX Runtime. Or the name
            of another runtime, which must be installed: "OpenVINO", "TFLite Micro", "SavedModel
            (C API)".

    Returns:
        A function from arrays by input name to arrays by output name, in inference mode. It is a
        context manager; `close()` ends its process. `inputs` has the shape and the dtype of each
        input by name, `signatures()` the names of the signatures, and `ops()` the operations.

    Raises:
        RunnerError: the artifact is missing, damaged or of an unknown format, or its inputs differ
            from the inputs of `model`.
        ValueError: `artifact` is not a path, `signature_name` is not a string, or `runtime` is not
            installed or does not run this file; or `model` is not a Keras model with inputs.

    Example:
        >>> path = export_tflite(model, "digits.tflite")
        >>> with open_runner(path) as run:
        ...     outputs = run({"rows": x_test})
        >>> outputs["digit"].shape
        (8, 10)
    """
    if not isinstance(artifact, str | os.PathLike):
        raise ValueError(f"artifact must be the path of an exported file; received {artifact!r}")
    if not isinstance(signature_name, str):
        raise ValueError(f"signature_name must be a string; received {signature_name!r}")
    path = pathlib.Path(artifact)
    if not path.exists():
        raise RunnerError(f"{path}: no such file or folder")
    names = None if model is None else list(signature.input_specs(model))
    try:
        known = FORMATS[require_known(path)]
        if runtime is None:
            runner = known.open(path, signature_name)
        else:
            sources = {source.runtime: source for source in known.find_sources(path, path.name)}
            if runtime not in sources:
                raise ValueError(
                    f"the installed runtimes that can run {path} are {', '.join(sources)}. "
                    f"Received: runtime={runtime!r}. Pass the name of an installed runtime, or "
                    "install the package of another runtime."
                )
            runner = cast(Runner, sources[runtime].open(signature_name))
    except GoldenCasesError as error:
        raise RunnerError(str(error)) from error
    if names is not None:
        try:
            signature.require_names(runner.inputs, names, "the model")
        except ValueError as error:
            runner.close()
            raise RunnerError(f"{path} is not an export of this model: {error}") from error
    return runner
