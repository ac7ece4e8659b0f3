"""Run a model wherever it stands: each runner maps named arrays to named arrays."""

import abc
import dataclasses
import importlib.util
import os
import pathlib
import types
from collections.abc import Mapping
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export import signature
from keras_norm.export.errors import RunnerError
from keras_norm.export.saved_model_file import (
    saved_model_folder,
    saved_model_ops,
    saved_model_signature,
    saved_model_signatures,
)
from keras_norm.export.signature import SERVING_DEFAULT, TensorSpec
from keras_norm.export.worker_process import WorkerProcess

Arrays = dict[str, np.ndarray]

TIMEOUT = 300.0


class Runner(abc.ABC):
    """A function from named arrays to named arrays, and a context manager that closes it.

    Attributes:
        name: short, for reports.
        path: the file or folder it runs, or None for a model in memory.
        inputs: name -> `TensorSpec`.
    """

    name: str
    path: pathlib.Path | None
    inputs: dict[str, TensorSpec]

    def __call__(self, inputs: Mapping[str, Any]) -> Arrays:
        """Run once, in inference mode.

        Args:
            inputs: name -> array, for every name in `self.inputs`. A type that differs is
                converted where no value changes its meaning (int64 to int32, float64 to float32,
                int to float).

        Returns:
            Output name -> array; bfloat16 comes as float32.

        Raises:
            ValueError: an input is missing, unknown, or has the wrong shape or type.
            RunnerError: the artefact failed to run.
        """
        signature.require_names(inputs, list(self.inputs), self.name)
        return self._run({n: _fitted(np.asarray(inputs[n]), s) for n, s in self.inputs.items()})

    @abc.abstractmethod
    def _run(self, inputs: Arrays) -> Arrays:
        """Run on arrays that fit `self.inputs`."""

    def ops(self) -> dict[str, list[str]]:
        """Operation -> where it stands (nodes of the graph, tensors of the file)."""
        return {}

    def signatures(self) -> list[str]:
        """Names of the signatures that the artefact has."""
        return []

    @abc.abstractmethod
    def close(self) -> None:
        """Release what the runner holds. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()


class KerasRunner(Runner):
    """The Keras model in memory, in inference mode, as `model.predict` runs it.

    Args:
        model: a functional or a built sequential model.
    """

    name = "Keras"
    path = None

    def __init__(self, model: keras.Model) -> None:
        self.inputs = signature.input_specs(model)
        specs = {n: tf.TensorSpec(s.shape, s.dtype) for n, s in self.inputs.items()}
        self._function = tf.function(
            lambda tensors: signature.call(model, tensors, training=False),
            input_signature=[specs],
            autograph=False,
        ).get_concrete_function()

    def _run(self, inputs: Arrays) -> Arrays:
        tensors = {n: tf.cast(a, self.inputs[n].dtype) for n, a in inputs.items()}
        return {name: _as_numpy(tensor) for name, tensor in self._function(tensors).items()}

    def close(self) -> None:
        """Do nothing: the model stays the caller's."""


class WorkerRunner(Runner):
    """A runner whose work is done in a child process, so that nothing there can harm this one.

    Args:
        path: the file or folder to run.
        signature_name: which of its signatures to run.
        timeout: seconds that loading or one run may take.

    Raises:
        RunnerError: the artefact is missing, damaged or foreign.
    """

    path: pathlib.Path

    def __init__(
        self,
        path: str | os.PathLike[str],
        signature_name: str = SERVING_DEFAULT,
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self.path = pathlib.Path(path)
        self.signature_name = signature_name
        self._worker = self._start(timeout)

    @abc.abstractmethod
    def _start(self, timeout: float) -> WorkerProcess:
        """Start the worker and set `self.inputs`."""

    def _run(self, inputs: Arrays) -> Arrays:
        return self._worker.run(inputs)

    def modules(self) -> set[str]:
        """Top-level Python modules that the worker has imported."""
        return self._worker.modules()

    def state(self) -> dict[str, str]:
        """A digest of each variable, by name; empty where the runtime does not show them."""
        return self._worker.state()

    def close(self) -> None:
        """End the worker process."""
        self._worker.close()

    @property
    def _subject(self) -> str:
        return f"{self.name} {self.path}"


class SavedModelRunner(WorkerRunner):
    """A SavedModel in a TensorFlow process that can import neither Keras nor this package."""

    name = "SavedModel"
    _script = "run_saved_model.py"

    def _start(self, timeout: float) -> WorkerProcess:
        try:
            inputs, outputs = saved_model_signature(self.path, self.signature_name)
        except (OSError, ValueError) as error:
            raise RunnerError(f"{self._subject}: {error}") from error
        self.inputs = {}
        for name, tensor in inputs.items():
            if tensor.shape is None:
                raise RunnerError(f'{self._subject}: input "{name}" has no fixed number of axes')
            self.inputs[name] = TensorSpec(name, tensor.shape, tensor.dtype)
        request = {
            "path": str(self.path),
            "signature": self.signature_name,
            "inputs": {n: dataclasses.asdict(t) for n, t in inputs.items()},
            "outputs": {n: dataclasses.asdict(t) for n, t in outputs.items()},
        }
        return WorkerProcess(self._script, request, subject=self._subject, timeout=timeout)

    def ops(self) -> dict[str, list[str]]:
        """Operation -> nodes of the graph and its functions."""
        return saved_model_ops(self.path)

    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return saved_model_signatures(self.path)


class CApiRunner(SavedModelRunner):
    """A SavedModel through TensorFlow's C API, the loader that TensorFlow Serving uses.

    The worker never imports Python's TensorFlow.
    """

    name = "SavedModel (C API)"
    _script = "run_c_api.py"


class TFLiteRunner(WorkerRunner):
    """A TFLite file in LiteRT's interpreter, resized to each call's shapes.

    Raises:
        ImportError: LiteRT is not installed.
    """

    name = "TFLite"

    def _start(self, timeout: float) -> WorkerProcess:
        require_litert()
        if not self.path.is_file():
            raise RunnerError(f"{self._subject}: no such file")
        request = {"path": str(self.path), "signature": self.signature_name}
        worker = WorkerProcess("run_tflite.py", request, subject=self._subject, timeout=timeout)
        self.inputs = {
            name: TensorSpec(name, tuple(entry["shape"]), entry["dtype"])
            for name, entry in worker.info["inputs"].items()
        }
        return worker

    def ops(self) -> dict[str, list[str]]:
        """Operation -> tensors it writes, in the main graph and in loop bodies."""
        return dict(self._worker.info["ops"])

    def signatures(self) -> list[str]:
        """Names of the signatures in the file."""
        return list(self._worker.info["signatures"])


def open_runner(
    artifact: str | os.PathLike[str],
    model: keras.Model | None = None,
    signature_name: str = SERVING_DEFAULT,
) -> WorkerRunner:
    """Open the runner that fits an exported file or folder.

    Args:
        artifact: a SavedModel's folder, a folder of numbered versions (the highest is taken), or a
            .tflite file.
        model: the Keras model it should be an export of; its inputs are then compared by name.
        signature_name: which of its signatures to run.

    Raises:
        RunnerError: it is none of these, is damaged, or takes other inputs than `model`.
    """
    path = pathlib.Path(artifact)
    runner: WorkerRunner
    if path.suffix == ".tflite":
        runner = TFLiteRunner(path, signature_name)
    elif not path.exists():
        raise RunnerError(f"{path}: no such file or folder")
    else:
        try:
            runner = SavedModelRunner(saved_model_folder(path), signature_name)
        except ValueError as error:
            raise RunnerError(str(error)) from error
    if model is not None:
        try:
            signature.require_names(runner.inputs, list(signature.input_specs(model)), "the model")
        except ValueError as error:
            runner.close()
            raise RunnerError(f"{path} is no export of this model: {error}") from error
    return runner


def require_litert() -> None:
    """Raise ImportError if LiteRT, which runs TFLite files, is not installed."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise ImportError(
            "TFLite files are run by LiteRT, which is not installed: "
            'pip install "keras-norm[tflite]"'
        )


def _fitted(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """Check an array's shape, and convert its type where that loses no meaning."""
    if spec.dtype == "string":
        raise ValueError(f'input "{spec.name}" takes text; the runners pass numbers only')
    wanted = spec.shape
    if array.ndim != len(wanted) or any(
        w not in (None, n) for w, n in zip(wanted, array.shape, strict=True)
    ):
        shape = ", ".join("any" if size is None else str(size) for size in wanted)
        raise ValueError(f'input "{spec.name}" has the shape ({shape}); received {array.shape}')
    dtype = np.dtype("float32" if spec.dtype == "bfloat16" else spec.dtype)
    if not (np.can_cast(array.dtype, dtype, "same_kind") and signature.in_range(array, dtype)):
        raise ValueError(
            f'input "{spec.name}" has the type {spec.dtype}; received {array.dtype} values that '
            "it cannot hold"
        )
    return np.asarray(array, dtype)


def _as_numpy(tensor: Any) -> np.ndarray:
    return np.asarray(tf.cast(tensor, "float32") if tensor.dtype == tf.bfloat16 else tensor)
