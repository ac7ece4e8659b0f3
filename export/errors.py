"""Define the errors of exporting a model and of running an exported file."""

import re

from keras_norm.keras_internals import reason
from keras_norm_verify.printable import MAX_PRINTED, printable

# Regular expression of the graph-node names in TensorFlow's error messages, such as "[Op:MatMul]".
NODES = re.compile(r"\{\{.*?\}\}\s*|\s*\[Op:.*?\]")


class UnsupportedOpError(ValueError):
    """Raised if runtimes of the exported format cannot run an operation or a dtype of the model.

    Args:
        message: names the operation and its Keras layer, with advice.
        ops: operation name -> names of the graph nodes with this operation.
    """

    def __init__(self, message: str, ops: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.ops = ops or {}


class ConversionError(RuntimeError):
    """Raised if the converter fails for another reason than an unsupported operation."""


class VerificationError(RuntimeError):
    """Raised if the outputs of an exported file differ from the Keras model's outputs."""


class StreamingError(ValueError):
    """Raised if a model cannot run timestep by timestep; the message names the cause."""


class RunnerError(RuntimeError):
    """Raised if an exported file cannot be loaded or run.

    The file is corrupt, is not an exported file, crashed its runtime, or took too long.

    Args:
        message: one line that names the file and the cause. Names in the file may contain escape
            sequences of terminals, which the message shows as escapes.
        detail: the complete output of the worker process.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(printable(message, MAX_PRINTED))
        self.detail = detail or message


class UnsafeOpError(RunnerError):
    """Raised for a file whose operations can access data outside the file.

    The file is not run.

    Args:
        message: names the file and the operations.
        ops: operation name -> names of the graph nodes with this operation.
    """

    def __init__(self, message: str, ops: dict[str, list[str]]) -> None:
        super().__init__(message)
        self.ops = ops


def one_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class name if the message is empty.

    If Keras wraps an error of a layer's call in another error, the layer's own message counts.
    """
    return first_line(reason(error)) or type(error).__name__


def first_line(text: str) -> str:
    """Remove TensorFlow's node names from a text, and return its first nonempty line, or ""."""
    lines = (line.strip() for line in NODES.sub("", text).splitlines())
    return next(filter(None, lines), "")
