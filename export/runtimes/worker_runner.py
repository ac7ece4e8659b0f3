"""Runners that work in a child process."""

import abc
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras_norm.export.errors import RunnerError
from keras_norm.export.runtimes.runner import Arrays, Runner, fitted
from keras_norm.export.runtimes.worker_process import WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT, TensorSpec

TIMEOUT = 300.0


class WorkerRunner(Runner):
    """A runner whose work is done in a child process, so that nothing there can harm this one.

    Args:
        path: the file or folder to run.
        signature_name: which of its signatures to run.
        timeout: seconds that loading or one run may take.
        worker: a process of `start`, or of another runner of this class, which then runs no more;
            None to start one.

    Raises:
        RunnerError: the artefact is missing, damaged or foreign.

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
        except (OSError, ValueError) as error:  # what reads the file here finds it damaged
            self.close()
            raise RunnerError(f"{self._subject}: {error}") from error
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, path: str | os.PathLike[str], *, timeout: float = TIMEOUT) -> WorkerProcess:
        """Start the child process, which imports its runtime while others do other things."""
        return WorkerProcess(cls.script, subject=f"{cls.name} {path}", timeout=timeout)

    @abc.abstractmethod
    def _load(self) -> None:
        """Let the worker load the artefact, and set `self.inputs`."""

    def _load_file(self, request: Mapping[str, Any]) -> Any:
        """As `_load_reporting`, one file."""
        if not self.path.is_file():
            raise RunnerError(f"{self._subject}: no such file")
        return self._load_reporting(request)

    def _load_reporting(self, request: Mapping[str, Any]) -> Any:
        """Let the worker load, and take the inputs that it reports."""
        info = self.worker.load(request)
        self.inputs = {
            name: TensorSpec(name, tuple(shape), dtype)
            for name, (shape, dtype) in info["inputs"].items()
        }
        return info

    def _run(self, inputs: Arrays) -> Arrays:
        return self.worker.run(inputs)

    def over_time(
        self, sequences: Mapping[str, Any], others: Mapping[str, Any], states: Sequence[str]
    ) -> Arrays:
        """Run whole sequences through a signature `step`, timestep by timestep, in the worker.

        Args:
            sequences: inputs with time, (batch, time, ...), all of one length.
            others: inputs without: the first states, and what every timestep is given alike.
            states: names of the states.

        Returns:
            Every output that is no state, of all timesteps: (batch, time, ...).

        Raises:
            ValueError, RunnerError: as `__call__`.
        """
        specs = {
            name: dataclasses.replace(spec, shape=(*spec.shape[:1], None, *spec.shape[1:]))
            if name in sequences
            else spec
            for name, spec in self.inputs.items()
        }
        given = fitted({**sequences, **others}, specs, self.name)
        now, rest = ({name: given[name] for name in part} for part in (sequences, others))
        return self.worker.ask("stream", [now, rest], states=list(states))[1][0]

    def signatures(self) -> list[str]:
        """Names of the signatures in the file that the runner can be led to."""
        return [self.signature_name]

    def modules(self) -> set[str]:
        """Top-level Python modules that the worker has imported."""
        return set(self.worker.ask("modules")[0])

    def state(self) -> dict[str, str]:
        """A digest of each variable, by name; empty where the runtime does not show them."""
        return dict(self.worker.ask("state")[0])

    def seconds(self) -> float:
        """How long the last run took, or the average timestep, without the way to the worker."""
        return float(self.worker.ask("seconds")[0])

    def close(self) -> None:
        """End the worker process."""
        self.worker.close()

    @property
    def _subject(self) -> str:
        return f"{self.name} {self.path}"
