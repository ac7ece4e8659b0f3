"""Register the file formats that this package can write, run and check."""

import pathlib

from keras_norm.export.formats.artifact_format import Format
from keras_norm.export.formats.onnx.onnx_format import ONNX
from keras_norm.export.formats.saved_model.saved_model_format import SAVED_MODEL
from keras_norm.export.formats.tflite.tflite_format import TFLITE
from keras_norm_verify.runtimes import RUNTIMES, name_of_format

# All registered formats by name, such as "tflite".
FORMATS: dict[str, Format] = {known.name: known for known in (SAVED_MODEL, TFLITE, ONNX)}


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
    RUNTIMES[added.name] = added.runtime


def format_of(path: pathlib.Path) -> Format | None:
    """Return the format of an existing path; None if no format recognizes it."""
    return FORMATS.get(name_of_format(path) or "")


def format_named(name: str) -> Format:
    """Return the registered format with the given name; raise ValueError for an unknown name.

    Args:
        name: name of the format, such as "tflite".

    Raises:
        ValueError: no format has this name.
    """
    if name not in FORMATS:
        raise ValueError(f"the format must be one of {', '.join(FORMATS)}; received {name}")
    return FORMATS[name]
