"""Worker processes forked from one that has imported what they need.

Importing TensorFlow takes 4 s, and the tests start hundreds of workers. From `load` on, a forked
worker does what one does that is started by itself (`tests/export/runners/test_worker_process.py`).
"""

import contextlib
import functools
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
from typing import Any

from keras_norm.export.runners import worker_process

SERVER = pathlib.Path(__file__).with_name("fork_server.py")
WORKERS = worker_process.FOLDER
start_process = worker_process.start
_servers: list[subprocess.Popen[bytes]] = []
_sockets: list[socket.socket] = []


def start(script: pathlib.Path, stderr: Any, temporary: str) -> Any:
    """As `worker_process.start`, by a fork for the scripts of the package."""
    if script.parent != WORKERS or not hasattr(socket, "send_fds"):
        return start_process(script, stderr, temporary)
    return Fork(_server(script), stderr)


class Fork:
    """A forked worker, with what `subprocess.Popen` has for it."""

    def __init__(self, server: socket.socket, stderr: Any) -> None:
        (stdin, to), (of, stdout), (status, ended) = os.pipe(), os.pipe(), os.pipe()
        socket.send_fds(server, [os.getcwd().encode()], [stdin, stdout, stderr.fileno(), ended])
        for given in (stdin, stdout, ended):
            os.close(given)
        self.stdin, self.stdout = os.fdopen(to, "wb"), os.fdopen(of, "rb")
        self._status = os.fdopen(status, "rb")
        self._pid = self._number()
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, a negative one for a signal."""
        if self._code is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            self._code = self._number()
            self._status.close()
        return self._code

    def kill(self) -> None:
        """End it at once, where it has not ended."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _number(self) -> int:
        (number,) = struct.unpack("i", self._status.read(4))
        return int(number)


@functools.cache
def _server(script: pathlib.Path) -> socket.socket:
    """A process that has imported a script, and forks."""
    ours, theirs = socket.socketpair()
    with theirs:
        _servers.append(subprocess.Popen([sys.executable, str(SERVER), str(script)], stdin=theirs))
    _sockets.append(ours)
    return ours


def stop() -> None:
    """End the processes that fork."""
    for server in _sockets:
        server.close()
    for process in _servers:
        process.kill()
        process.wait()
