"""Runners that work in a child process."""

import abc
import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras_norm.export.errors import RunnerError
from keras_norm.export.runners.runner import Arrays, Runner, fitted
from keras_norm.export.runners.worker_process import WorkerProcess
from keras_norm.export.signature import SERVING_DEFAULT, TensorSpec

TIMEOUT = 300.0


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

    def _start_file(self, script: str, request: Mapping[str, Any], timeout: float) -> WorkerProcess:
        """Start a worker that runs one file, and take the inputs that it reports."""
        if not self.path.is_file():
            raise RunnerError(f"{self._subject}: no such file")
        worker = WorkerProcess(script, request, subject=self._subject, timeout=timeout)
        self.inputs = {
            name: TensorSpec(name, tuple(entry["shape"]), entry["dtype"])
            for name, entry in worker.info["inputs"].items()
        }
        return worker

    def _run(self, inputs: Arrays) -> Arrays:
        return self._worker.run(inputs)

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
        return self._worker.over_time(now, rest, states)

    def modules(self) -> set[str]:
        """Top-level Python modules that the worker has imported."""
        return self._worker.modules()

    def state(self) -> dict[str, str]:
        """A digest of each variable, by name; empty where the runtime does not show them."""
        return self._worker.state()

    def seconds(self) -> float:
        """How long the last run took, without the way to the worker and back."""
        return self._worker.seconds()

    def close(self) -> None:
        """End the worker process."""
        self._worker.close()

    @property
    def _subject(self) -> str:
        return f"{self.name} {self.path}"
