"""Runners that run an artifact in a child process."""

import abc
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from keras_norm.export.errors import RunnerError
from keras_norm.export.input_names import TensorSpec
from keras_norm.export.runtimes.runner import Runner, convert_inputs
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT
from keras_norm.typing import Arrays, Json, TensorLike

TIMEOUT = 300.0


class WorkerRunner(Runner):
    """A runner that runs an artifact in a child process. A crash ends only the child process.

    Args:
        path: the file or folder to run.
        signature_name: name of the signature to run.
        timeout: seconds that loading or one run may take.
        worker: a process from `start`, or the process of another runner of this class. The other
            runner cannot run afterwards. None starts a process.

    Raises:
        RunnerError: the artifact is missing, damaged or of another format.

    Attributes:
        worker: the child process.
    """

    path: pathlib.Path
    script: str

    def __init__(
        self,
        path: str | os.PathLike[str],
        signature_name: str = SERVING_DEFAULT,
        *,
        timeout: float = TIMEOUT,
        worker: WorkerProcess | None = None,
    ) -> None:
        self.path = pathlib.Path(path)
        self.signature_name = signature_name
        self.worker = worker or self.start(path, timeout=timeout)
        try:
            self._load()
        # `_load` raises OSError or ValueError for a missing or damaged artifact.
        except (OSError, ValueError) as error:
            self.close()
            raise RunnerError(f"{self._subject}: {error}") from error
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, path: str | os.PathLike[str], *, timeout: float = TIMEOUT) -> WorkerProcess:
        """Start the worker process, and do not wait until it has imported its runtime."""
        return WorkerProcess(cls.script, subject=f"{cls.name} {path}", timeout=timeout)

    @abc.abstractmethod
    def _load(self) -> None:
        """Load the artifact in the worker, and set `self.inputs`."""

    def _load_file(self, options: Mapping[str, Json]) -> Json:
        """Load a file in the worker and set `self.inputs`; raise RunnerError for a missing file."""
        if not self.path.is_file():
            raise RunnerError(f"{self._subject}: no such file")
        return self._load_inputs(options)

    def _load_inputs(self, options: Mapping[str, Json]) -> Json:
        """Load the artifact in the worker, and set `self.inputs` from the worker's reply."""
        report = self.worker.load(options)
        self.inputs = {
            name: TensorSpec(name, tuple(shape), dtype)
            for name, (shape, dtype) in report["inputs"].items()
        }
        return report

    def _run(self, inputs: Arrays) -> Arrays:
        return self.worker.run(inputs)

    def run_over_time(
        self,
        sequences: Mapping[str, TensorLike],
        others: Mapping[str, TensorLike],
        states: Sequence[str],
    ) -> Arrays:
        """Run whole sequences in the worker: call the single-step model once for each timestep.

        Args:
            sequences: inputs with a time axis, (batch, time, ...), all of equal length.
            others: inputs without a time axis: the initial states, and inputs that are equal at
                every timestep.
            states: names of the states.

        Returns:
            Every output after each timestep, (batch, time, ...), without the states.

        Raises:
            ValueError, RunnerError: as `__call__`.
        """
        specs = {
            name: dataclasses.replace(spec, shape=(*spec.shape[:1], None, *spec.shape[1:]))
            if name in sequences
            else spec
            for name, spec in self.inputs.items()
        }
        arrays = convert_inputs({**sequences, **others}, specs, self.name)
        parts = [{name: arrays[name] for name in part} for part in (sequences, others)]
        outputs: Arrays = self.worker.call("run_over_time", *parts, list(states))
        return outputs

    def signatures(self) -> list[str]:
        """Return the names of the signatures that the runner can run."""
        return [self.signature_name]

    def variable_digests(self) -> dict[str, str]:
        """Return a hash of each variable's value by name; {} if the runtime hides its variables."""
        return dict(self.worker.call("variable_digests"))

    def seconds(self) -> float:
        """Return the seconds of the last run; after `run_over_time`, the mean of all timesteps.

        The worker measures the time, without the messages to and from the worker.
        """
        return float(self.worker.call("seconds"))

    def close(self) -> None:
        """End the worker process."""
        self.worker.close()

    @property
    def _subject(self) -> str:
        return f"{self.name} {self.path}"
