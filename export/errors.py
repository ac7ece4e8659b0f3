"""What can go wrong when a model is exported or an exported file is run."""

import re

from keras_norm.keras_internals import reason

# How TensorFlow names nodes of its own graphs within what it says.
NODES = re.compile(r"\{\{.*?\}\}\s*|\s*\[Op:.*?\]")


class UnsupportedOpError(ValueError):
    """The model needs an operation, or a kind of number, that the format's runtimes do not have.

    Args:
        message: which operation, in which Keras layer, and what to do.
        ops: operation name -> the graph nodes that it stands in.
    """

    def __init__(self, message: str, ops: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.ops = ops or {}


class ConversionError(RuntimeError):
    """The converter failed or died for a reason other than an unsupported operation."""


class VerificationError(RuntimeError):
    """A file was written, run, and found to compute something else than the Keras model."""


class StreamingError(ValueError):
    """The model cannot run timestep by timestep; the message says which layer, and why."""


class RunnerError(RuntimeError):
    """An exported file could not be loaded or run: corrupt, foreign, crashed or too slow.

    Args:
        message: one line that says which file and why.
        detail: everything the worker process reported.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class UnsafeOpError(RunnerError):
    """An exported file is not run: it holds operations that reach more than the file.

    Args:
        message: which file, and which operations.
        ops: operation name -> the graph nodes that it stands in.
    """

    def __init__(self, message: str, ops: dict[str, list[str]]) -> None:
        super().__init__(message)
        self.ops = ops


class TextError(ValueError):
    """An input or an output is text, and numbers alone are passed on and compared."""


class UsageError(ValueError):
    """What the command line was asked for cannot be done."""


def one_line(error: Exception) -> str:
    """The first line of what an error says, or its kind where it says nothing.

    Of what Keras makes of an error in a layer's call it is what the layer raised.
    """
    return first_line(reason(error)) or type(error).__name__


def first_line(text: str) -> str:
    """The first line that says something, without the names of TensorFlow's nodes; or ""."""
    lines = (line.strip() for line in NODES.sub("", text).splitlines())
    return next(filter(None, lines), "")
