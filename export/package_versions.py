"""List the versions of the packages that write, run and compare exported files."""

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
    """Return the version of every installed package in `PACKAGES`, by name."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
