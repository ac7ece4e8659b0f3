"""The registry of file formats that this package can write, run and check."""

import pathlib

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.onnx.onnx_format import ONNX
from keras_norm.export.formats.saved_model.saved_model_format import SAVED_MODEL
from keras_norm.export.formats.tflite.tflite_format import TFLITE

# Format name -> format. `format_of` tries the formats in the order of this dict.
# (A TFLite file may have any file name.)
FORMATS: dict[str, Format] = {}


def register(added: Format) -> None:
    """Register a format, so that every command and function supports it.

    Args:
        added: the format, with a name that is not registered.

    Raises:
        ValueError: a format of this name is registered.
    """
    if added.name in FORMATS:
        raise ValueError(f"the format {added.name!r} is registered already")
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
        raise ValueError(f"The formats are {', '.join(FORMATS)}. Received: {name}.")
    return FORMATS[name]


def titles() -> str:
    """List all formats for a message: "a SavedModel folder, a TFLite file or an ONNX file"."""
    *others, last = (known.title for known in FORMATS.values())
    return f"{', '.join(others)} or {last}" if others else last


for _built_in in (SAVED_MODEL, TFLITE, ONNX):
    register(_built_in)
