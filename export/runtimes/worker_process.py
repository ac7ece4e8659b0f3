"""Start a worker process, send requests to it, and report its failures as `RunnerError`."""

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
from typing import IO, Protocol, cast

from keras_norm.export.errors import RunnerError, first_line
from keras_norm.export.runtimes import worker_protocol as protocol
from keras_norm.typing import Array, Arrays, Json

FORMATS = pathlib.Path(__file__).parents[1] / "formats"

# Time limit of one conversion, in seconds. The exporters run a converter in a worker process,
# because some models crash the converter. The worker frees its memory when it ends, and it
# imports TensorFlow while the exporter traces the model.
CONVERSION_SECONDS = 1800.0

# Log lines of TensorFlow and LiteRT that are not the cause of an error.
LOG_LINE = re.compile(r"^(I\d{4} |W\d{4} |INFO|WARNING|\s|\*\*\* |To enable the following)")


class Process(Protocol):
    """Protocol for the members of `subprocess.Popen` that `WorkerProcess` uses."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def kill(self) -> None:
        """Kill the process."""

    def wait(self) -> int:
        """Wait until the process ends; return its exit status, negative if a signal ended it."""


class WorkerProcess(contextlib.AbstractContextManager["WorkerProcess"]):
    """A child process that runs a worker script, such as the script that runs TFLite files.

    The script is started by path, so that it imports neither this package nor Keras. The script's
    imports may take seconds. They start at once, and `load` waits until they are done.

    Args:
        script: path of the script, relative to `formats/`, such as "tflite/run_tflite.py".
        subject: name of the worker's task, which begins every error message.
        timeout: seconds that the worker may take for one reply before it is killed.

    Attributes:
        timeout: the argument `timeout`.
    """

    def __init__(self, script: str, *, subject: str, timeout: float) -> None:
        self._subject = subject
        self.timeout = timeout
        # TensorFlow writes temporary files while it traces a model, and a killed worker does not
        # delete them. The worker writes them to this folder, which `close` deletes.
        self._folder = tempfile.TemporaryDirectory(prefix="keras_norm_")
        # The worker writes to this file until `close`, so a `with` block cannot open it.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = start(FORMATS / script, self._stderr, self._folder.name)

    def load(self, options: Mapping[str, Json]) -> Json:
        """Load or convert a model in the worker; return the reply, such as the input shapes.

        A loaded model replaces the model that the worker loaded before.

        Args:
            options: options of the worker script, as a dict that JSON can store.

        Raises:
            RunnerError: the worker could not load, died, or took too long. The worker is then
                closed.
        """
        try:
            return self.request("load", options=options)[0]
        except BaseException:
            self.close()
            raise

    def run(self, arrays: Mapping[str, Array]) -> Arrays:
        """Run the worker's loaded model on inputs by name, and return its outputs by name."""
        return self.request("run", [arrays])[1][0]

    def request(
        self, name: str, cases: Sequence[Mapping[str, Array]] = (), **arguments: Json
    ) -> tuple[Json, list[Arrays]]:
        """Send a request to the worker, and return the JSON value and the arrays of the reply.

        Args:
            name: name of the request in the table of `worker_protocol`, such as "run".
            cases: dicts of input arrays by name.
            **arguments: further arguments of the request, which JSON can store.

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
            # If the worker has died, `read_message` returns None, which raises an error below.
            with contextlib.suppress(BrokenPipeError):
                message = {"request": name, "arguments": arguments}
                protocol.write_message(self._process.stdin, message, cases)
            reply = protocol.read_message(self._process.stdout)
        # Close the worker after an interrupt: the next call would read the late reply of this call.
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
        if expired.is_set():
            raise RunnerError(
                f"{self._subject}: the worker process did not reply within {self.timeout:g} s"
            )
        if reply is None:
            cause = cause_of_death(self._process.wait(), self._stderr)
            raise RunnerError(f"{self._subject}: the worker process {cause}")
        header, outputs = reply
        if (text := header.get("error")) is not None:
            raise RunnerError(f"{self._subject}: {first_line(text) or 'unknown error'}", text)
        return header["report"], outputs

    def close(self) -> None:
        """Kill the worker, which needs no orderly shutdown. A second call has no effect."""
        self._process.kill()  # `kill` has no effect on a process that has ended
        self._process.wait()
        # Closing stdin flushes its buffer, which fails because the worker has ended.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._stderr.close()
        self._folder.cleanup()

    def __exit__(self, *_: object) -> None:
        self.close()


def cause_of_death(status: int, stderr: IO[bytes]) -> str:
    """Describe how a process ended, as a predicate: "was killed by SIGKILL".

    Args:
        status: exit status of the process; negative if a signal ended it.
        stderr: the file with the process' stderr. Its last line that is no log line follows.
    """
    cause = f"ended with status {status}"
    if status < 0:
        cause = f"was killed by {signal.Signals(-status).name}"
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").splitlines()
    causes = [line for line in lines if line.strip() and not LOG_LINE.match(line)]
    return cause + (f": {causes[-1]}" if causes else "")


def start(script: pathlib.Path, stderr: IO[bytes], temporary: str) -> Process:
    """Start a worker script as a Python process with pipes for stdin and stdout.

    Args:
        script: path of the script.
        stderr: file that receives the script's stderr.
        temporary: folder for the script's temporary files.
    """
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=_environment() | {"TMPDIR": temporary},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return cast(Process, process)


def _environment() -> dict[str, str]:
    """Return environment variables with which a worker script can import `worker_protocol`.

    PYTHONSAFEPATH is removed: it would hide the modules in the script's folder.
    """
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    folders = [str(pathlib.Path(__file__).parent), *filter(None, [variables.get("PYTHONPATH")])]
    return variables | {"PYTHONPATH": os.pathsep.join(folders)}
