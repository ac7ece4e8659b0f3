"""Run a function of this package on TensorFlow for a parent process with another Keras backend.

The parent process sends pickled messages to stdin: the fields of `Settings`, and then a call
(module, name of the function, positional arguments, keyword arguments). This process sends pickled
messages (kind, content) to the parent process:

    kind       content                               the parent process
    call       number of a function, arguments       calls the function; replies (kind, content)
                                                     of the kind result or error
    print      text, whether it belongs to stderr    writes the text
    log        a `logging.LogRecord`                 passes the record to the logger
    warning    text, category, file, line            warns
    result     the result of the call                returns it; this is the last message
    error      an exception, its traceback           raises it; this is the last message
"""

import importlib
import io
import logging
import os
import pickle
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import keras

from keras_norm.export.errors import first_line, one_line
from keras_norm.export.model.reference_runner import TRAINED, Trained
from keras_norm.export.signature import TensorSpec
from keras_norm.keras_internals import reason
from keras_norm.typing import Nest

PROCESS = "the TensorFlow process of keras_norm.export"


class Settings(NamedTuple):
    """Settings of the parent process that hold in this process too.

    Attributes:
        floatx: `keras.config.floatx()`.
        epsilon: `keras.config.epsilon()`.
        image_data_format: `keras.config.image_data_format()`.
        log_level: effective level of the logger "keras_norm.export".
    """

    floatx: str
    epsilon: float
    image_data_format: str
    log_level: int


class Parent:
    """The connection to the parent process."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.RLock()

    def receive(self) -> Any:
        """Return the next message of the parent process."""
        return pickle.load(self._incoming)

    def send(self, kind: str, *content: object) -> None:
        """Send a message; the table of this module lists the kinds."""
        message = pickle.dumps((kind, *content))
        with self._lock:
            self._outgoing.write(message)
            self._outgoing.flush()

    def call(self, number: int, args: tuple[object, ...]) -> Any:
        """Call a function of the parent process, and return its result or raise its error."""
        with self._lock:
            self.send("call", number, args)
            kind, content = self.receive()
        if kind == "error":
            raise content
        return content


# The connection that `main` opens.
parent: Parent


class RemoteFunction:
    """A function of the parent process.

    Args:
        number: the function's number in the parent process.
        name: the function's name in reports.
        inputs: the attribute `inputs` of the function, or None.
    """

    def __init__(
        self, number: int, name: str = "", inputs: Mapping[str, TensorSpec] | None = None
    ) -> None:
        self.number, self.name, self.inputs = number, name, inputs

    def __call__(self, *args: object) -> Any:
        """Call the function in the parent process."""
        return parent.call(self.number, args)


class RemoteDataset:
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
        """Yield every batch."""
        following = self._read()
        while (batch := following()) is not None:
            yield batch


def remote_dataset(
    class_name: str, size: int, read: Callable[[], Callable[[], Nest]]
) -> RemoteDataset:
    """Return a `RemoteDataset` with the class name of the dataset, which messages contain."""
    cls = type(class_name, (RemoteDataset,), {})
    dataset: RemoteDataset = cls(size, read)
    return dataset


def load_trained(
    path: str, name: str, objects: Mapping[str, tuple[str, str]], trained: Trained
) -> keras.Model:
    """Load a model, which the parent process trained and saved, and register it in `TRAINED`.

    Args:
        path: the .keras file.
        name: the model's name, for messages.
        objects: module and name of each custom class or function, by its registered name.
        trained: the functions that run the model in the parent process.

    Raises:
        ValueError: a module cannot be imported, or the model cannot be loaded on TensorFlow.
    """
    custom_objects = {key: _import(*place) for key, place in objects.items()}
    try:
        # Safe mode would refuse Lambda layers. The parent process wrote the file, so it is safe.
        model: keras.Model = keras.saving.load_model(
            path, custom_objects, compile=False, safe_mode=False
        )
    # A layer may raise any error on another backend.
    except Exception as error:
        raise ValueError(
            f'the model "{name}" cannot be loaded on TensorFlow: {first_line(reason(error))}. '
            f"Custom layers must use keras.ops in place of functions of {trained.backend}, and "
            "need a complete get_config"
        ) from error
    TRAINED[model] = trained
    return model


def _import(module: str, name: str) -> object:
    """Return the class or function `name` of a module."""
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ValueError(
            f"{PROCESS} cannot import {name} from the module {module}: {one_line(error)}"
        ) from error
    return found


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
        parent.send("print", text, self._is_error)
        return len(text)


class _Logged(logging.Handler):
    """Send log records to the parent process."""

    def emit(self, record: logging.LogRecord) -> None:
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
        parent.send("log", record)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Send a warning to the parent process, whose filters decide what happens."""
    parent.send("warning", str(message), category, filename, lineno)


def _apply(settings: Settings) -> None:
    keras.config.set_floatx(settings.floatx)
    keras.config.set_epsilon(settings.epsilon)
    keras.config.set_image_data_format(settings.image_data_format)
    logger = logging.getLogger("keras_norm")
    logger.setLevel(settings.log_level)
    logger.propagate = False
    logger.addHandler(_Logged())
    warnings.simplefilter("always")
    warnings.showwarning = _warn


def _end_with(process: int) -> None:
    """End this process soon after its parent process ends, also if the parent was killed."""
    while os.getppid() == process:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    """Run the function that the parent process sends, and send its result or its error."""
    global parent
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    parent = Parent(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # native libraries print to stderr, because stdout has the messages
    sys.stdout, sys.stderr = _Printed(False), _Printed(True)
    try:
        _apply(Settings(*parent.receive()))
        module, name, args, kwargs = parent.receive()
        function = getattr(importlib.import_module(module), name)
        parent.send("result", function(*args, **kwargs))
    except Exception as error:
        parent.send("error", portable_error(error), traceback.format_exc())
    except KeyboardInterrupt:
        os._exit(1)
