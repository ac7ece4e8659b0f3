"""What only a part of the exporter needs, and how to install it."""

import importlib.util

# Extra of the installation -> what needs it, and the modules that it brings.
EXTRAS = {
    "micro": ("TensorFlow Lite Micro needs", ("tflite_micro",)),
    "onnx": ("ONNX files need", ("onnx", "onnxruntime")),
    "openvino": ("OpenVINO's opinion needs", ("openvino",)),
    "report": ("HTML reports need", ("jinja2", "PIL")),
    "serving": ("warmup requests need", ("tensorflow_serving",)),
    "tflite": ("TFLite files need", ("ai_edge_litert",)),
}


def is_installed(extra: str) -> bool:
    """Whether all that an extra brings is there."""
    return not _missing(*EXTRAS[extra][1])


def require(extra: str, *more: str) -> None:
    """Raise ImportError, with the command that installs it, if a part of an extra is missing.

    Args:
        extra: its name in pyproject.toml.
        more: further modules of it, which are needed here.
    """
    needs, modules = EXTRAS[extra]
    missing = _missing(*modules, *more)
    if missing:
        raise ImportError(
            f'{needs} {", ".join(missing)}: pip install ".[{extra}]" in a clone of keras_norm'
        )


def _missing(*modules: str) -> list[str]:
    return [module for module in modules if importlib.util.find_spec(module) is None]
