"""The formats that the command line can write, listed here without an import of TensorFlow."""

import inspect
import pathlib
import sys
from collections.abc import Collection
from typing import NamedTuple

REGISTRY = "keras_norm.export.formats.format_registry"


class FileFormat(NamedTuple):
    """The file name and the options of an export format, for `keras-norm export`.

    Attributes:
        file_name: name of an exported file in the folder of `keras-norm export`.
        options: arguments of the export function, which are options of `keras-norm export`.
    """

    file_name: str
    options: Collection[str]

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


# The built-in formats by name. A test compares them with the registry of `keras_norm.export`.
BUILT_IN = {
    "saved_model": FileFormat(
        "saved_model", {"version", "step", "samples", "golden_cases", "warmup"}
    ),
    "tflite": FileFormat(
        "model.tflite", {"step", "samples", "golden_cases", "signature", "quantize"}
    ),
    "onnx": FileFormat("model.onnx", {"samples", "golden_cases"}),
}


def known_formats() -> dict[str, FileFormat]:
    """Return all formats by name: the built-in formats, and formats of the user's modules.

    A module can register a format only if it has imported the registry.
    """
    registry = sys.modules.get(REGISTRY)
    if registry is None:
        return BUILT_IN
    return {
        name: FileFormat(each.file_name, inspect.signature(each.export).parameters)
        for name, each in registry.FORMATS.items()
    }
