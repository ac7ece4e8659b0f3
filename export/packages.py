"""List the installed packages, and name the command that installs a missing optional package."""

import contextlib
import importlib.metadata
import importlib.util

# Packages that write, run and compare exported files.
PACKAGES = (
    "keras",
    "tensorflow",
    "ai-edge-litert",
    "tflite-micro",
    "openvino",
    "onnxruntime",
    "numpy",
)

# For each pip extra: the beginning of the message about missing modules, and the modules that the
# extra installs.
EXTRAS = {
    "micro": ("TensorFlow Lite Micro needs", ("tflite_micro",)),
    "onnx": ("ONNX files need", ("onnx", "onnxruntime")),
    "openvino": ("the OpenVINO runtime needs", ("openvino",)),
    "report": ("HTML reports need", ("jinja2", "PIL")),
    "serving": ("warmup requests need", ("tensorflow_serving",)),
    "tflite": ("TFLite files need", ("ai_edge_litert",)),
}


def installed_versions() -> dict[str, str]:
    """Return the version of every installed package in `PACKAGES`, by name."""
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def is_installed(extra: str) -> bool:
    """Return whether all modules of a pip extra, such as `onnx`, are installed."""
    return not _missing(*EXTRAS[extra][1])


def require(extra: str, *more: str) -> None:
    """Raise ImportError, with the install command, if a module of a pip extra is missing.

    `more` are names of further modules that must be installed.
    """
    needs, modules = EXTRAS[extra]
    missing = _missing(*modules, *more)
    if missing:
        raise ImportError(
            f'{needs} {", ".join(missing)}: pip install ".[{extra}]" in a clone of keras_norm'
        )


def _missing(*modules: str) -> list[str]:
    return [module for module in modules if importlib.util.find_spec(module) is None]
