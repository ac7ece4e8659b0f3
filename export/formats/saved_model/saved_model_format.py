"""The description of the SavedModel format for the registry of formats."""

import pathlib
from collections.abc import Collection

import tensorflow as tf

from keras_norm.export.errors import RunnerError
from keras_norm.export.formats.artifact_format import Format, Ops, Source, in_runtime
from keras_norm.export.formats.openvino.openvino_runner import OpenVINORunner
from keras_norm.export.formats.saved_model.export_saved_model import export_saved_model
from keras_norm.export.formats.saved_model.saved_model_file import (
    SavedModelFile,
    saved_model_folder,
)
from keras_norm.export.formats.saved_model.saved_model_runner import CApiRunner, SavedModelRunner
from keras_norm.typing import Array


def _open(path: pathlib.Path, signature_name: str) -> SavedModelRunner:
    try:
        return SavedModelRunner(saved_model_folder(path), signature_name)
    except ValueError as error:
        raise RunnerError(str(error)) from error


def _sources(path: pathlib.Path, name: str) -> tuple[Source, ...]:
    folder = saved_model_folder(path)
    file = SavedModelFile(folder)
    file.ends()
    if folder != path:
        name = f"{name}/{folder.name}"
    in_tensorflow = in_runtime(SavedModelRunner, folder, name, "float64")
    if file.reaching:  # runners refuse such a file: one runner's error is enough
        return in_tensorflow
    in_c_api = in_runtime(CApiRunner, folder, f"{name} (C API)", "float64")
    if file.multiplies_integers:  # OpenVINO had an error of 0.35 on such a file
        return (*in_tensorflow, *in_c_api)
    return (
        *in_tensorflow,
        *in_c_api,
        *in_runtime(OpenVINORunner, folder, name, "float32", "openvino"),
    )


def _foreign_ops(path: pathlib.Path, ops: Ops) -> Collection[str]:
    """Return the XLA operations, functions that XLA compiles, custom and unsafe operations."""
    return set(SavedModelFile(path).unservable)


def _stored_weights(path: pathlib.Path) -> list[Array]:
    reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
    names = reader.get_variable_to_shape_map()
    return [reader.get_tensor(name) for name in names if not name.startswith("_CHECKPOINTABLE")]


SAVED_MODEL = Format(
    name="saved_model",
    title="a SavedModel folder",
    file_name="saved_model",
    recognizes=pathlib.Path.is_dir,
    export=export_saved_model,
    open=_open,
    sources=_sources,
    foreign_ops=_foreign_ops,
    signatures=lambda path: SavedModelFile(path).signatures,
    export_again=lambda path: {"step": False},
    stored_weights=_stored_weights,
    trace_script="saved_model/run_saved_model.py",
)
