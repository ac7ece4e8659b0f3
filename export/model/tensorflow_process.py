"""Run a function of this package on TensorFlow for a parent process with another Keras backend.

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
    """Return a channel between two processes of this package, whose messages are pickles.

    The reply to a failed call has the error and the traceback. A RuntimeError with the same message
    replaces an error that pickle cannot read.
    """

    def describe_error(error: Exception) -> tuple[Exception, str]:
        return portable_error(error), traceback.format_exc()

    return Channel(
        connection, functions, dumps=pickle.dumps, loads=pickle.loads, describe_error=describe_error
    )


# The channel to the parent process, which `main` opens.
parent: Channel


class RemoteFunction:
    """A function of the parent process, which this process can call.

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
    """A dataset of the parent process, with the methods of `tf.data.Dataset` that are used here.

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
    """Load a model, which the parent process trained and saved, and register it in `TRAINED`.

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
        except Exception as error:  # a module may raise any error
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
    """Return an exception that another process can read: the exception itself, if possible."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    # The constructor or an attribute of a user's exception may raise any error.
    except Exception:
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


class _Printed(io.TextIOBase):
    """A text stream whose text the parent process prints."""

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
    """Send a warning to the parent process, whose warning filters show or ignore it."""
    parent.notify("on_warning", str(message), category, filename, lineno)


class TensorFlowFunctions:
    """The function of this process that its parent process calls."""

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
    """Run the function that the parent process calls over the connection."""
    global parent
    end_with_parent()
    parent = pickle_channel(connection, TensorFlowFunctions())
    sys.stdout, sys.stderr = _Printed(False), _Printed(True)
    try:
        parent.serve()
    except KeyboardInterrupt:
        os._exit(1)
