"""The registry of file formats that this package can write, run and check."""

import os
import pathlib
from typing import cast

import keras

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.onnx.export_onnx import export_onnx
from keras_norm.export.formats.onnx.onnx_runner import ONNXRunner, foreign_onnx_ops, onnx_sources
from keras_norm.export.formats.saved_model.export_saved_model import (
    export_saved_model,
    require_replaceable,
)
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.saved_model.saved_model_runner import (
    open_saved_model,
    saved_model_sources,
    stored_weights,
    unservable_ops,
)
from keras_norm.export.formats.tflite.constant_differences import compare_with_new_export
from keras_norm.export.formats.tflite.export_tflite import export_tflite
from keras_norm.export.formats.tflite.tflite_file import is_tflite, read_tflite
from keras_norm.export.formats.tflite.tflite_graph import input_ranges
from keras_norm.export.formats.tflite.tflite_runner import (
    TFLiteRunner,
    foreign_tflite_ops,
    tflite_options,
    tflite_sources,
)
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import SERVING_DEFAULT

SAVED_MODEL = Format(
    name="saved_model",
    title="a SavedModel folder",
    file_name="saved_model",
    recognizes=pathlib.Path.is_dir,
    export=export_saved_model,
    open=open_saved_model,
    sources=saved_model_sources,
    foreign_ops=unservable_ops,
    signatures=lambda path: SavedModelFile(path).signatures,
    export_again=lambda path: {"step": False},
    stored_weights=stored_weights,
    trace_script="saved_model/run_saved_model.py",
    loaded_by_servers=True,
    require_replaceable=require_replaceable,
)

TFLITE = Format(
    name="tflite",
    title="a TFLite file",
    file_name="model.tflite",
    recognizes=is_tflite,
    export=export_tflite,
    open=TFLiteRunner,
    sources=tflite_sources,
    foreign_ops=foreign_tflite_ops,
    signatures=lambda path: read_tflite(path).signatures,
    export_again=tflite_options,
    is_single_step=lambda path: read_tflite(path).is_single_step,
    compare_constants=compare_with_new_export,
    input_ranges=input_ranges,
    trace_script="tflite/run_tflite.py",
)

ONNX = Format(
    name="onnx",
    title="an ONNX file",
    file_name="model.onnx",
    recognizes=lambda path: path.suffix == ".onnx",
    export=export_onnx,
    open=ONNXRunner,
    sources=onnx_sources,
    foreign_ops=foreign_onnx_ops,
    trace_script="onnx/run_onnx.py",
)

# Format name -> format. `format_of` tries the formats in the order of this dict: TFLite is tried
# before ONNX, because a TFLite file may have any file name.
FORMATS: dict[str, Format] = {}


def register(added: Format) -> None:
    """Register a format, so that every command and function supports it.

    Args:
        added: the format, with a name that is not registered.

    Raises:
        ValueError: a format of this name is registered.
    """
    if added.name in FORMATS:
        raise ValueError(f"the format {added.name!r} is registered already; choose another name")
    FORMATS[added.name] = added


def format_of(path: pathlib.Path) -> Format | None:
    """Find the format of a file or folder.

    Args:
        path: a path that exists.

    Returns:
        The first format that recognizes the path; None if no format recognizes it.
    """
    return next((known for known in FORMATS.values() if known.recognizes(path)), None)


def format_named(name: str) -> Format:
    """Find a format by name.

    Args:
        name: name of the format, such as "tflite".

    Raises:
        ValueError: no format has this name.
    """
    if name not in FORMATS:
        raise ValueError(f"the format must be one of {', '.join(FORMATS)}; received {name}")
    return FORMATS[name]


def titles() -> str:
    """List all formats for a message: "a SavedModel folder, a TFLite file or an ONNX file"."""
    *others, last = (known.title for known in FORMATS.values())
    return f"{', '.join(others)} or {last}" if others else last


def open_runner(
    artifact: str | os.PathLike[str],
    model: keras.Model | None = None,
    signature_name: str = SERVING_DEFAULT,
    runtime: str | None = None,
) -> Runner:
    """Open an exported file or folder as a function from inputs by name to outputs by name.

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
    found = format_of(path)
    if found is None:
        hint = ""
        if path.suffix in (".keras", ".h5"):
            hint = ". Load the model: keras.saving.load_model(path)"
        raise RunnerError(f"{path} is not {titles()}{hint}")
    names = None if model is None else list(signature.input_specs(model))
    if runtime is None:
        runner = found.open(path, signature_name)
    else:
        runner = _open_in_runtime(found, path, signature_name, runtime)
    if names is not None:
        try:
            signature.require_names(runner.inputs, names, "the model")
        except ValueError as error:
            runner.close()
            raise RunnerError(f"{path} is not an export of this model: {error}") from error
    return runner


def _open_in_runtime(
    found: Format, path: pathlib.Path, signature_name: str, runtime: str
) -> Runner:
    """Open an artifact in the runtime of a name."""
    sources = {source.runtime: source for source in found.sources(path, path.name)}
    if runtime not in sources:
        raise ValueError(
            f"the installed runtimes that can run {path} are {', '.join(sources)}. Received: "
            f"runtime={runtime!r}. Install the package of another runtime, or pass one of these."
        )
    return cast(Runner, sources[runtime].open(signature_name))


for _built_in in (SAVED_MODEL, TFLITE, ONNX):
    register(_built_in)
