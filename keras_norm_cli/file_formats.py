"""The formats that the command line can write and read, known without TensorFlow."""

import inspect
import pathlib
import sys
from collections.abc import Callable, Collection
from typing import NamedTuple

REGISTRY = "keras_norm.export.formats.format_registry"


class FileFormat(NamedTuple):
    """The properties of `keras_norm.export.formats.artifact_format.Format` that need no TensorFlow.

    Attributes:
        title: the name of the format in a sentence.
        file_name: name of an exported file in the folder of `keras-norm export`.
        options: arguments of the export function, which are options of `keras-norm export`.
        recognizes: whether an existing path is of this format.
    """

    title: str
    file_name: str
    options: Collection[str]
    recognizes: Callable[[pathlib.Path], bool]

    def target(self, folder: pathlib.Path, version: int | None) -> pathlib.Path:
        """Return the path to export to; for version 2, "saved_model/2" or "model-2.tflite".

        Args:
            folder: the folder of `keras-norm export`.
            version: the version, or None.
        """
        path = folder / self.file_name
        if version is None:
            return path
        if "version" in self.options:
            return path / str(version)
        return path.with_name(f"{path.stem}-{version}{path.suffix}")


def _is_tflite(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(8)[4:] == b"TFL3"


# The built-in formats by name. A test compares them with the registry.
BUILT_IN = {
    "saved_model": FileFormat(
        "a SavedModel folder",
        "saved_model",
        {"version", "step", "samples", "golden_cases", "warmup"},
        pathlib.Path.is_dir,
    ),
    "tflite": FileFormat(
        "a TFLite file",
        "model.tflite",
        {"step", "samples", "golden_cases", "signature", "quantize"},
        lambda path: path.is_file() and _is_tflite(path),
    ),
    "onnx": FileFormat(
        "an ONNX file",
        "model.onnx",
        {"samples", "golden_cases"},
        lambda path: path.suffix == ".onnx",
    ),
}


def known_formats() -> dict[str, FileFormat]:
    """Return all formats by name: the built-in formats, and the formats that a module registered.

    A module can register a format only if it has imported the registry.
    """
    registry = sys.modules.get(REGISTRY)
    if registry is None:
        return BUILT_IN
    return {
        name: FileFormat(
            each.title,
            each.file_name,
            inspect.signature(each.export).parameters,
            each.recognizes,
        )
        for name, each in registry.FORMATS.items()
    }
