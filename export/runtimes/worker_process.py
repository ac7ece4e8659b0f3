"""Start child processes, call their functions, and report their failures as `RunnerError`."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any, Self

from keras_norm.export.errors import RunnerError, first_line
from keras_norm.export.runtimes.channel import Channel
from keras_norm.typing import Array, Arrays, Json
from keras_norm_verify import run_over_time

FORMATS = pathlib.Path(__file__).parents[1] / "formats"

# Time limit of one conversion, in seconds. The exporters run a converter in a worker process,
# because some models crash the converter. The worker frees its memory when it ends, and it
# imports TensorFlow while the exporter traces the model.
CONVERSION_SECONDS = 1800.0

# Log lines of TensorFlow and LiteRT that are not the cause of an error.
LOG_LINE = re.compile(r"^(I\d{4} |W\d{4} |INFO|WARNING|\s|\*\*\* |To enable the following)")


class ChildProcess:
    """A child process that runs Python. The parent process starts it, calls it, and kills it.

    Args:
        command: arguments of Python, before the file number of the connection.
        environment: environment variables that differ from this process'.
        interruptible: whether Ctrl-C in a terminal interrupts the process too.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], interruptible: bool = True
    ) -> None:
        # Folder for temporary files of the child process. TensorFlow writes such files while it
        # traces a model. A killed process does not delete its files, so `close` deletes the folder.
        self.folder = tempfile.TemporaryDirectory(prefix="keras_norm_")
        # Use no `with` block: the child process writes to this file until `close` closes the file.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self.connection, theirs = Pipe()
        environment = {**os.environ, **environment, "TMPDIR": self.folder.name}
        self.process = start(command, environment, theirs, self._stderr, not interruptible)
        theirs.close()

    def cause_of_death(self) -> str:
        """Wait for the end of the process and describe its cause: "was killed by SIGKILL".

        The last line that the process wrote follows, unless it is a log line.
        """
        status = self.process.wait()
        cause = f"ended with status {status}"
        if status < 0:
            cause = f"was killed by {signal.Signals(-status).name}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        causes = [line for line in lines if line.strip() and not LOG_LINE.match(line)]
        return cause + (f": {causes[-1]}" if causes else "")

    def close(self) -> None:
        """Kill the process, which needs no orderly shutdown. A second call has no effect."""
        self.process.kill()  # `kill` has no effect on a process that has ended
        self.process.wait()
        self.connection.close()
        self._stderr.close()
        self.folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WorkerProcess(ChildProcess):
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
        # Folders of modules that the script imports. The script's own folder is not in this list:
        # Python itself searches that folder for modules, unless PYTHONSAFEPATH is set.
        folders = [str(pathlib.Path(file).parent) for file in (__file__, run_over_time.__file__)]
        folders.append(os.environ.get("PYTHONPATH", ""))
        path = os.pathsep.join(filter(None, folders))
        super().__init__([str(FORMATS / script)], {"PYTHONPATH": path, "PYTHONSAFEPATH": ""})
        self._channel = Channel(self.connection)

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
            return self.call("load", dict(options))
        except BaseException:
            self.close()
            raise

    def run(self, arrays: Mapping[str, Array]) -> Arrays:
        """Run the worker's loaded model on inputs by name, and return its outputs by name."""
        outputs: Arrays = self.call("run", arrays)
        return outputs

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of `worker_protocol.Worker` in the worker, and return its result.

        Args:
            name: name of the method, such as "run".
            *arguments: its arguments: what JSON can store, arrays, and lists and dicts of arrays.

        Raises:
            RunnerError: the method raised an error, or the worker died, or it took too long.
        """
        if self.connection.closed:
            raise RunnerError(f"{self._subject}: the runner is closed")
        try:
            kind, content = self._channel.call(name, *arguments, timeout=self.timeout)
        except TimeoutError:
            self.process.kill()
            raise RunnerError(
                f"{self._subject}: the worker process did not reply within {self.timeout:g} s"
            ) from None
        except (EOFError, ConnectionError):
            raise RunnerError(
                f"{self._subject}: the worker process {self.cause_of_death()}"
            ) from None
        # After an interrupt close the worker: its late reply would be the reply of the next call.
        except BaseException:
            self.close()
            raise
        if kind == "error":
            raise RunnerError(f"{self._subject}: {first_line(content) or 'unknown error'}", content)
        return content


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    connection: "Connection[Any, Any]",
    stderr: IO[bytes],
    new_session: bool,
) -> "subprocess.Popen[bytes]":
    """Start a Python process, and pass the file descriptor of a connection as the last argument.

    Args:
        command: the other arguments of Python.
        environment: the process' environment variables.
        connection: the process' end of the connection.
        stderr: file that receives all that the process prints.
        new_session: whether the process has its own session, so that Ctrl-C does not interrupt it.
    """
    number = connection.fileno()
    return subprocess.Popen(
        [sys.executable, *command, str(number)],
        stdin=subprocess.DEVNULL,
        stdout=stderr,
        stderr=stderr,
        env=environment,
        pass_fds=[number],
        start_new_session=new_session,
    )
