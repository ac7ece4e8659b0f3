"""Versions of the packages that write, run and compare files."""

import contextlib
import importlib.metadata

PACKAGES = (
    "keras",
    "tensorflow",
    "ai-edge-litert",
    "tflite-micro",
    "openvino",
    "onnxruntime",
    "numpy",
)


def versions() -> dict[str, str]:
    """Version of each of `PACKAGES` that is installed, by name."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
