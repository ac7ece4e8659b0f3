"""Run a function of this package in a TensorFlow process. The parent process has another backend.

The parent process calls `TensorFlowFunctions.run` over a `pickle_channel`. This process calls the
methods of `other_backends.TensorFlowProcess` whose names begin with "on_".
"""

import importlib
import io
import logging
import logging.handlers
import os
import pickle
import pkgutil
import queue
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

import keras

from keras_norm.export.errors import first_line, one_line
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.model.reference_runner import TRAINED
from keras_norm.export.runtimes.channel import Channel, end_with_parent
from keras_norm.keras_internals import reason
from keras_norm.typing import Json, Nest

PROCESS = "the TensorFlow process of keras_norm.export"


def pickle_channel(connection: "Connection[Any, Any]", functions: object) -> Channel:
    """Return a channel that sends messages as pickles between two processes of this package.

    The reply to a failed call has the error and the traceback. A RuntimeError with the same message
    replaces an error that pickle cannot read.
    """

    def describe_error(error: Exception) -> tuple[Exception, str]:
        return portable_error(error), traceback.format_exc()

    return Channel(
        connection, functions, dumps=pickle.dumps, loads=pickle.loads, describe_error=describe_error
    )


# The channel to the parent process. `main` opens this channel.
parent: Channel


class RemoteFunction:
    """A function that stays in the parent process. A call of this object calls the function there.

    Args:
        number: the function's number in the parent process.
        name: the function's name in reports.
        inputs: the input specs of the function by name, if they are known.
    """

    def __init__(self, number: int, name: str, inputs: Mapping[str, TensorSpec]) -> None:
        self.number, self.name, self.inputs = number, name, inputs

    def __call__(self, *args: object) -> Any:
        """Call the function in the parent process."""
        kind, content = parent.call("on_call", self.number, args)
        if kind == "error":
            raise content[0]
        return content


class Dataset:
    """A dataset that stays in the parent process. It has two methods of `tf.data.Dataset`.

    Args:
        size: number of batches; -1 for an infinite dataset.
        read: function that begins an iteration. It returns a function, which returns the next
            batch, or None after the last batch.
    """

    def __init__(self, size: int, read: Callable[[], Callable[[], Nest]]) -> None:
        self._size, self._read = size, read

    def cardinality(self) -> int:
        """Return the number of batches; -1 for an infinite dataset."""
        return self._size

    def as_numpy_iterator(self) -> Iterator[Nest]:
        """Yield every batch of the parent process' dataset."""
        following = self._read()
        while (batch := following()) is not None:
            yield batch


def load_trained(
    path: str, name: str, custom_objects: Mapping[str, str], backend: str, call: RemoteFunction
) -> keras.Model:
    """Load a model that the parent process trained and saved, and add the model to `TRAINED`.

    Args:
        path: the .keras file.
        name: the model's name, for messages.
        custom_objects: places of custom classes and functions, such as "my_layers:Doubled", by
            their registered names.
        backend: the backend of the parent process, such as "jax".
        call: function that calls a method of the model's `KerasRunner` in the parent process.

    Raises:
        ValueError: a module cannot be imported, or the model cannot be loaded on TensorFlow.
    """
    objects = {}
    for key, place in custom_objects.items():
        try:
            objects[key] = pkgutil.resolve_name(place)
        except Exception as error:  # the import may raise any error
            raise ValueError(f"{PROCESS} cannot import {place}: {one_line(error)}") from error
    try:
        # Safe mode would refuse Lambda layers. The parent process wrote the file, so it is safe.
        model: keras.Model = keras.saving.load_model(path, objects, compile=False, safe_mode=False)
    # A layer may raise any error on another backend.
    except Exception as error:
        raise ValueError(
            f'the model "{name}" cannot be loaded on TensorFlow: {first_line(reason(error))}. '
            f"Custom layers must use keras.ops in place of functions of {backend}, and "
            "need a complete get_config"
        ) from error
    TRAINED[model] = backend, call
    return model


def portable_error(error: Exception) -> Exception:
    """Return `error` if pickle can copy it; otherwise a RuntimeError with the same message."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    # Copying a user's exception runs code of its class, which may raise any error.
    except Exception:
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


class _Printed(io.TextIOBase):
    """A text stream that sends its text to the parent process, which prints the text."""

    def __init__(self, is_error: bool) -> None:
        self._is_error = is_error

    def write(self, text: str) -> int:
        parent.notify("on_print", text, self._is_error)
        return len(text)


class _Logged(logging.handlers.QueueHandler):
    """Send log records to the parent process, which passes them to its loggers."""

    def enqueue(self, record: logging.LogRecord) -> None:
        parent.notify("on_log", record)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Send a warning to the parent process, which applies its own warning filters."""
    parent.notify("on_warning", str(message), category, filename, lineno)


class TensorFlowFunctions:
    """The function that the TensorFlow process runs for its parent process."""

    def run(self, settings: Mapping[str, Json], log_level: int, call: bytes) -> object:
        """Run a function of keras_norm for the parent process, and return its result.

        `settings` are Keras' settings in the parent process, by their names in `keras.config`.
        `log_level` is the level of its logger "keras_norm.export". `call` is a pickle of the
        function's module, its name, its positional and its keyword arguments. Reading the
        pickle loads the models (`load_trained`).
        """
        for name, value in settings.items():
            getattr(keras.config, f"set_{name}")(value)
        logger = logging.getLogger("keras_norm")
        logger.setLevel(log_level)
        logger.propagate = False
        logger.addHandler(_Logged(queue.SimpleQueue()))
        warnings.simplefilter("always")
        warnings.showwarning = _warn
        module, name, args, kwargs = pickle.loads(call)
        return getattr(importlib.import_module(module), name)(*args, **kwargs)


def main(connection: "Connection[Any, Any]") -> None:
    """Run calls of the parent process until it closes the connection."""
    global parent
    end_with_parent()
    parent = pickle_channel(connection, TensorFlowFunctions())
    sys.stdout, sys.stderr = _Printed(False), _Printed(True)
    try:
        parent.serve()
    except KeyboardInterrupt:
        os._exit(1)
