"""Start worker processes by a fork of a process that has imported their script.

Importing TensorFlow takes 4 s, and the tests start hundreds of workers. All test processes share
the servers of `fork_server`. After its imports, a forked worker behaves like a started worker
(`tests/export/runtimes/test_worker_process.py`).
"""

import contextlib
import os
import pathlib
import signal
import socket
import struct
from typing import Any

from keras_norm.export.runtimes import worker_process
from tests import fork_server

FORMATS = worker_process.FORMATS
start_process = worker_process.start


def start(command: Any, environment: Any, connection: Any, stderr: Any, new_session: bool) -> Any:
    """Start a process as `worker_process.start` does, but fork the workers of the package."""
    if pathlib.Path(command[0]).parents[1:2] != (FORMATS,) or fork_server.ADDRESS not in os.environ:
        return start_process(command, environment, connection, stderr, new_session)
    return Fork(command[0], connection, stderr)


class Fork:
    """A forked worker, with the methods of `subprocess.Popen` that `worker_process` calls."""

    def __init__(self, script: str, connection: Any, stderr: Any) -> None:
        status, ended = os.pipe()
        message = b"\0".join(map(os.fsencode, (script, os.getcwd())))
        with fork_server.connect(script) as server:
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
