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
import tempfile
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

import keras

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.model.keras_runner import restored_variables
from keras_norm.export.model.portable_values import PortableValues
from keras_norm.export.model.tensorflow_process import (
    PROCESS,
    Settings,
    portable_error,
)
from keras_norm.export.runtimes.worker_process import cause_of_death

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# The first lines of the child process. In a background job SIGINT is ignored, and the child process
# would inherit that.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
# The program of the child process. It finds modules where this process finds them.
PROGRAM = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from keras_norm.export.model.tensorflow_process import main
main()
"""
# Seconds that the child process has for its cleanup after an interrupt, twice. The command line
# gives an interrupted cleanup 5 seconds.
CLEANUP = 2.0


def runs_on_tensorflow(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function of Keras models that needs the TensorFlow backend.

    On TensorFlow, or without a Keras model among the arguments, the function runs as it is. On
    another backend it runs in a child process with the TensorFlow backend:

    - Each model is saved, and loaded in the child process.
    - The outputs that exported files must have are computed in this process, on its backend.
    - Functions and datasets among the arguments stay in this process.
    - The result, errors, warnings, log records and printed text return to this process.
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
            # `text_inputs` refuses a model without symbolic inputs at once.
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


class TensorFlowProcess(contextlib.AbstractContextManager["TensorFlowProcess"]):
    """A child process with the TensorFlow backend, which runs one function of this package.

    The process uses no GPU, because the backend of this process may hold the GPU's memory. It
    starts at once. Its imports take seconds.
    """

    def __init__(self) -> None:
        # Models, and the temporary files of the child process, which may be killed.
        self._folder = tempfile.TemporaryDirectory(prefix="keras_norm_")
        self._values = PortableValues(pathlib.Path(self._folder.name))
        self._warned: dict[object, object] = {}
        # The process writes to this file until the end, so a `with` block cannot open it.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            # With -P the first lines of the program import nothing from the working directory.
            [sys.executable, "-P", "-c", INTERRUPTIBLE + PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={
                **os.environ,
                "KERAS_BACKEND": "tensorflow",
                "CUDA_VISIBLE_DEVICES": "-1",
                "TMPDIR": self._folder.name,
            },
            # Ctrl-C in a terminal interrupts this process only, which interrupts the child once: a
            # second interrupt would end the cleanup.
            start_new_session=True,
        )

    def call(
        self, module: str, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Call a function in the child process; return its result, or raise its error.

        Args:
            module: name of the function's module.
            name: name of the function.
            args: positional arguments.
            kwargs: keyword arguments by name.

        Raises:
            ValueError: a model cannot be saved, or has a class that cannot be imported.
            RunnerError: the child process died.
        """
        settings = Settings(
            keras.config.floatx(),
            keras.config.epsilon(),
            keras.config.image_data_format(),
            logging.getLogger("keras_norm.export").getEffectiveLevel(),
        )
        try:
            self._send(sys.path)
            self._send(tuple(settings))
            self._send((module, name, self._values.convert(args), self._values.convert(kwargs)))
            while True:
                kind, *content = self._receive()
                if kind in ("result", "error"):
                    break
                getattr(self, f"_on_{kind}")(*content)
        except BaseException:
            self._interrupt()
            raise
        if kind == "error":
            error, trace = content
            raise error from RuntimeError(f"in {PROCESS}:\n{trace}")
        return content[0]

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # the process needs no orderly shutdown
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                cast(Any, stream).close()
        self._stderr.close()
        self._folder.cleanup()

    def _send(self, message: object) -> None:
        # If the process has died, `_receive` raises an error.
        with contextlib.suppress(BrokenPipeError):
            stdin = cast(Any, self._process.stdin)
            stdin.write(pickle.dumps(message))
            stdin.flush()

    def _receive(self) -> Any:
        try:
            return pickle.load(cast(Any, self._process.stdout))
        except (EOFError, pickle.UnpicklingError):
            cause = cause_of_death(self._process.wait(), self._stderr)
            memory = ". The computer may have too little memory" if "SIGKILL" in cause else ""
            raise RunnerError(f"{PROCESS} {cause}{memory}") from None

    def _interrupt(self) -> None:
        """Interrupt the child process, so that it removes incomplete files."""
        for _ in range(2):
            if os.name == "posix":
                self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLEANUP)
                return

    def _on_call(self, number: int, args: tuple[object, ...]) -> None:
        try:
            result = self._values.convert(self._values.functions[number](*args))
        except Exception as error:
            self._send(("error", portable_error(error)))
        else:
            self._send(("result", result))

    def _on_print(self, text: str, is_error: bool) -> None:
        print(text, end="", file=sys.stderr if is_error else sys.stdout)

    def _on_log(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).handle(record)

    def _on_warning(self, text: str, category: type[Warning], filename: str, line: int) -> None:
        warnings.warn_explicit(text, category, filename, line, registry=cast(Any, self._warned))
