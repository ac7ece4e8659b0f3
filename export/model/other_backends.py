"""Run exports and checks of models of other backends, such as JAX, in a TensorFlow process."""

import contextlib
import functools
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar, cast

import keras

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.model.keras_runner import restored_variables
from keras_norm.export.model.portable_values import PortableValues
from keras_norm.export.model.tensorflow_process import PROCESS, pickle_channel
from keras_norm.export.runtimes.worker_process import ChildProcess

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# First lines of the program of the child process. With these lines SIGINT (Ctrl-C) interrupts the
# child process, even if the parent process is a background job, which ignores SIGINT.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
# Program of the child process. The parent process sends its `sys.path` to the child process, so
# that both processes find the same modules.
PROGRAM = """
import multiprocessing.connection, sys
connection = multiprocessing.connection.Connection(int(sys.argv[1]))
sys.path[:] = connection.recv()
from keras_norm.export.model.tensorflow_process import main
main(connection)
"""
# Seconds that the child process has for its cleanup after an interrupt. The parent process sends at
# most two interrupts, so it waits at most 4 seconds. The command line allows 5 seconds for all
# cleanup.
CLEANUP = 2.0


def runs_on_tensorflow(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function that needs TensorFlow, so that it also takes models of other backends.

    On TensorFlow, or without a Keras model among the arguments, the function runs unchanged. On
    another backend it runs in a child process with the TensorFlow backend:

    - Each model is saved, and loaded in the child process.
    - The outputs that exported files must have are computed in the parent process, on its backend.
    - Functions and datasets among the arguments stay in the parent process.
    - The result, errors, warnings, log records and printed text return to the parent process.
    - The variables of the models do not change.

    Args:
        function: a function at the top level of a module. Its arguments may contain models,
            functions and datasets, also in lists and dicts.
    """

    @functools.wraps(function)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        leaves = keras.tree.flatten([args, kwargs])
        models = [leaf for leaf in leaves if isinstance(leaf, keras.Model)]
        if not models or keras.backend.backend() == "tensorflow":
            return function(*args, **kwargs)
        for model in models:
            # For a model without symbolic inputs, `text_inputs` raises ValueError. So the error
            # comes before the child process starts.
            for name in signature.text_inputs(model):
                raise ValueError(
                    f'input "{name}" takes text, and Keras runs such a model on TensorFlow only. '
                    "Save the model, load it with KERAS_BACKEND=tensorflow, and export it there"
                )
        with contextlib.ExitStack() as stack:
            for model in models:
                stack.enter_context(restored_variables(model))
            process = stack.enter_context(TensorFlowProcess())
            result = process.call(function.__module__, function.__name__, args, kwargs)
        return cast(Result, result)

    return run


class TensorFlowProcess(ChildProcess):
    """A child process with the TensorFlow backend, which runs one function of this package.

    The process uses no GPU, because the backend of the parent process may hold the GPU's
    memory. It starts at once. Its imports take seconds.
    """

    def __init__(self) -> None:
        super().__init__(
            # With the option -P, Python does not import modules from the working directory, for
            # example a user's file signal.py.
            ["-P", "-c", INTERRUPTIBLE + PROGRAM],
            {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"},
            # Ctrl-C in a terminal interrupts only the parent process, which then interrupts the
            # child process. If Ctrl-C interrupted the child process too, it would receive two
            # interrupts, and the second one would end its cleanup.
            interruptible=False,
        )
        # Save the models in the folder of temporary files, which `close` deletes.
        self._values = PortableValues(pathlib.Path(self.folder.name))
        self._channel = pickle_channel(self.connection, self)
        self._warned: dict[str | tuple[str, type[Warning], int], int] = {}

    def call(
        self, module: str, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Call a function of a module in the child process; return its result, or raise its error.

        Raises:
            ValueError: a model cannot be saved, or has a class that cannot be imported.
            RunnerError: the child process died.
        """
        names = ("floatx", "epsilon", "image_data_format")
        settings = {name: getattr(keras.config, name)() for name in names}
        log_level = logging.getLogger("keras_norm.export").getEffectiveLevel()
        try:
            call = module, name, self._values.convert(args), self._values.convert(kwargs)
            self.connection.send(sys.path)
            kind, content = self._channel.call("run", settings, log_level, pickle.dumps(call))
        except (EOFError, ConnectionError):
            cause = self.cause_of_death()
            memory = ". The computer may have too little memory" if "SIGKILL" in cause else ""
            raise RunnerError(f"{PROCESS} {cause}{memory}") from None
        except BaseException:
            self._interrupt()
            raise
        if kind == "error":
            error, trace = content
            raise error from RuntimeError(f"in {PROCESS}:\n{trace}")
        return content

    def _interrupt(self) -> None:
        """Interrupt the child process, so that it removes incomplete files."""
        for _ in range(2):
            if os.name == "posix":
                self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(CLEANUP)
                return

    def on_call(self, number: int, args: tuple[object, ...]) -> object:
        """Call a function of the parent process when the child process asks for it.

        The parent process passed the function to `call` as an argument. The function stays in the
        parent process, and the child process knows only its number.
        """
        return self._values.convert(self._values.functions[number](*args))

    def on_print(self, text: str, is_error: bool) -> None:
        """Print text of the child process in the parent process."""
        print(text, end="", file=sys.stderr if is_error else sys.stdout)

    def on_log(self, record: logging.LogRecord) -> None:
        """Pass a log record of the child process to the parent process' logger of the same name."""
        logging.getLogger(record.name).handle(record)

    def on_warning(self, text: str, category: type[Warning], filename: str, line: int) -> None:
        """Repeat a warning of the child process in the parent process."""
        warnings.warn_explicit(text, category, filename, line, registry=self._warned)
