"""The runner's end of a worker process: start it, ask it, and survive whatever happens to it."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_norm.export.errors import RunnerError, first_line
from keras_norm.export.runtimes import worker_protocol as protocol

FORMATS = pathlib.Path(__file__).parents[1] / "formats"

# What TensorFlow and LiteRT say in passing, as against what went wrong.
CHATTER = re.compile(r"^(I\d{4} |W\d{4} |INFO|WARNING|\s|\*\*\* |To enable the following)")


class WorkerProcess(contextlib.AbstractContextManager["WorkerProcess"]):
    """A child process that runs a worker script of a format.

    The scripts are started by path, so that neither this package nor Keras is imported in them.
    What they import may take seconds: they begin at once, and `load` waits for it.

    Args:
        script: the file, relative to `formats/`: "tflite/run_tflite.py".
        subject: what the worker works on, for error messages.
        timeout: seconds that one answer may take before the worker is killed.

    Attributes:
        timeout: see above.
    """

    def __init__(self, script: str, *, subject: str, timeout: float) -> None:
        self._subject = subject
        self.timeout = timeout
        # Killed, a worker leaves its temporary files: TensorFlow's traces write some.
        self._folder = tempfile.TemporaryDirectory(prefix="keras_norm_")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the worker
        self._process = start(FORMATS / script, self._stderr, self._folder.name)

    def load(self, request: Mapping[str, Any]) -> Any:
        """Load what every later call runs, in place of what is loaded; the worker's report of it.

        Args:
            request: anything JSON can hold.

        Raises:
            RunnerError: the worker could not load, died, or took too long. It is closed then.
        """
        try:
            return self.ask("load", request=request)[0]
        except BaseException:
            self.close()
            raise

    def run(self, arrays: Mapping[str, np.ndarray]) -> protocol.Arrays:
        """Send inputs and return outputs."""
        return self.ask("run", [arrays])[1][0]

    def ask(
        self, what: str, cases: Sequence[Mapping[str, np.ndarray]] = (), **given: Any
    ) -> tuple[Any, list[protocol.Arrays]]:
        """What the worker tells, and the arrays that it answers; see `protocol`.

        Args:
            what: "run", "stream", "threads", "modules", "state" or "seconds".
            cases: inputs.
            **given: what JSON can hold.

        Raises:
            RunnerError: the worker failed, died, or took too long.
        """
        if self._process.stdin.closed:
            raise RunnerError(f"{self._subject}: the runner is closed")
        expired = threading.Event()

        def give_up() -> None:
            expired.set()
            self._process.kill()

        timer = threading.Timer(self.timeout, give_up)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # it died: reading finds that out
                protocol.write_message(self._process.stdin, {"ask": what, "given": given}, cases)
            reply = protocol.read_message(self._process.stdout)
        except BaseException:  # an interrupt: what it will answer is no answer to the next call
            self.close()
            raise
        finally:
            timer.cancel()
        if expired.is_set():
            raise RunnerError(f"{self._subject}: no answer within {self.timeout:g} s")
        if reply is None:
            raise RunnerError(f"{self._subject}: {self._cause_of_death()}")
        header, outputs = reply
        if (text := header.get("error")) is not None:
            raise RunnerError(f"{self._subject}: {first_line(text) or 'unknown error'}", text)
        return header["told"], outputs

    def close(self) -> None:
        """End the worker, which holds nothing that must be put in order. Twice is fine."""
        self._process.kill()  # nothing where it has ended
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # of what it had not read
            self._process.stdin.close()
        self._process.stdout.close()
        self._stderr.close()
        self._folder.cleanup()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _cause_of_death(self) -> str:
        code = self._process.wait()
        cause = f"ended with status {code}"
        if code < 0:
            cause = f"was killed by {signal.Signals(-code).name}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        telling = [line for line in lines if line.strip() and not CHATTER.match(line)]
        return f"the process that ran it {cause}" + (f": {telling[-1]}" if telling else "")


def start(script: pathlib.Path, stderr: Any, temporary: str) -> Any:
    """Start a script as a process with pipes for its input and output, and a temporary folder."""
    return subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=_environment() | {"TMPDIR": temporary},
    )


def _environment() -> dict[str, str]:
    """Variables with which a script finds its neighbors and `worker_protocol`."""
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    folders = [str(pathlib.Path(__file__).parent), *filter(None, [variables.get("PYTHONPATH")])]
    return variables | {"PYTHONPATH": os.pathsep.join(folders)}
