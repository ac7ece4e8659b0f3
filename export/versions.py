"""Versions of the packages that write, run and compare files."""

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
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
