"""Define the `Format` of SavedModels: how they are written, opened and checked."""

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.saved_model.export_saved_model import (
    export_saved_model,
    require_replaceable,
)
from keras_norm.export.formats.saved_model.saved_model_file import SavedModelFile
from keras_norm.export.formats.saved_model.saved_model_runner import (
    SavedModelRunner,
    saved_model_sources,
    stored_weights,
)
from keras_norm_verify.runtimes import RUNTIMES
from keras_norm_verify.saved_model import saved_model_folder

SAVED_MODEL = Format(
    name="saved_model",
    runtime=RUNTIMES["saved_model"],
    file_name="saved_model",
    export=export_saved_model,
    open=lambda path, signature_name: SavedModelRunner(saved_model_folder(path), signature_name),
    sources=saved_model_sources,
    foreign_ops=lambda path, ops: SavedModelFile(path).unservable_ops,
    signatures=lambda path: SavedModelFile(path).signatures,
    export_again=lambda path: {"step": False},
    stored_weights=stored_weights,
    trace_script="saved_model/run_saved_model.py",
    loaded_by_servers=True,
    require_replaceable=require_replaceable,
)
