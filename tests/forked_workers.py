"""Start worker processes by a fork of a process that has imported their script.

Importing TensorFlow takes 4 s, and the tests start hundreds of workers. All test processes share
one fork server. After its imports, a forked worker behaves like a started worker
(`tests/export/runtimes/test_worker_process.py`).
"""

import contextlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

from keras_norm.export.runtimes import worker_process

SERVER = pathlib.Path(__file__).with_name("fork_server.py")
FORMATS = worker_process.FORMATS
start_process = worker_process.start
ADDRESS = "KERAS_NORM_FORK_SERVER"


def start(command: Any, environment: Any, connection: Any, stderr: Any, new_session: bool) -> Any:
    """Start a process as `worker_process.start` does, but fork the workers of the package."""
    if pathlib.Path(command[0]).parents[1:2] != (FORMATS,) or ADDRESS not in os.environ:
        return start_process(command, environment, connection, stderr, new_session)
    return Fork(command[0], connection, stderr)


class Fork:
    """A forked worker, with the methods of `subprocess.Popen` that `worker_process` calls."""

    def __init__(self, script: str, connection: Any, stderr: Any) -> None:
        status, ended = os.pipe()
        message = b"\0".join(map(os.fsencode, (script, os.getcwd())))
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(os.environ[ADDRESS])
            socket.send_fds(server, [message], [connection.fileno(), stderr.fileno(), ended])
        os.close(ended)
        self._status = os.fdopen(status, "rb")
        self._pid = self._read_int()
        self._code: int | None = None

    def wait(self) -> int:
        """Wait for the exit status, which is negative after a signal."""
        if self._code is None:
            self._code = self._read_int()
            self._status.close()
        return self._code

    def kill(self) -> None:
        """Kill the worker if it still runs."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _read_int(self) -> int:
        (number,) = struct.unpack("i", self._status.read(4))
        return int(number)


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Run the fork server for this process, and for processes started inside the block."""
    if ADDRESS in os.environ or not hasattr(socket, "send_fds"):
        yield
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address = os.path.join(folder, "forks")
        listener.bind(address)
        listener.listen(128)
        number = listener.fileno()
        command = [sys.executable, str(SERVER), str(number)]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number])
        with server, mock.patch.dict(os.environ, {ADDRESS: address}):
            yield  # the server ends when its standard input is closed
