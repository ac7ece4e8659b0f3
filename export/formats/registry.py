"""The formats that exports are written in, run from and checked in."""

import pathlib

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.onnx.onnx_format import ONNX
from keras_norm.export.formats.saved_model.saved_model_format import SAVED_MODEL
from keras_norm.export.formats.tflite.tflite_format import TFLITE

# By name, in the order in which a path is tried: TFLite files may have any name.
FORMATS: dict[str, Format] = {}


def register(added: Format) -> None:
    """Add a format to those that every command and function knows.

    Args:
        added: the format; its name must be new.

    Raises:
        ValueError: a format of that name is registered.
    """
    if added.name in FORMATS:
        raise ValueError(f"the format {added.name!r} is registered already")
    FORMATS[added.name] = added


def format_of(path: pathlib.Path) -> Format | None:
    """Find the format of a file or folder.

    Args:
        path: a path that exists.

    Returns:
        The first format that recognizes the path; None if none does.
    """
    return next((known for known in FORMATS.values() if known.recognizes(path)), None)


def format_named(name: str) -> Format:
    """Find a format by name.

    Args:
        name: such as "tflite".

    Raises:
        ValueError: no format has this name.
    """
    if name not in FORMATS:
        raise ValueError(f"The formats are {', '.join(FORMATS)}. Received: {name}.")
    return FORMATS[name]


def titles() -> str:
    """All formats, for a message: "a SavedModel folder, a TFLite file or an ONNX file"."""
    *others, last = (known.title for known in FORMATS.values())
    return f"{', '.join(others)} or {last}" if others else last


for _built_in in (SAVED_MODEL, TFLITE, ONNX):
    register(_built_in)
