"""Fork worker processes from processes that have imported the worker's script.

`forking` starts this file by its path, as the exporter starts workers, so that no other module is
imported. One server imports TensorFlow once for all scripts that import it.
"""

import contextlib
import gc
import importlib
import os
import pathlib
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

ADDRESS = "KERAS_NORM_FORK_SERVER"


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Run the fork servers for this process, and for processes started inside the block."""
    if ADDRESS in os.environ or not hasattr(socket, "send_fds"):
        yield
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for name in ("plain", "tensorflow"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(os.path.join(folder, name))
            listener.listen(128)
            number = listener.fileno()
            command = [sys.executable, __file__, str(number), name]
            # A server ends when its standard input is closed.
            server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number])
            stack.enter_context(server)
        stack.enter_context(mock.patch.dict(os.environ, {ADDRESS: folder}))
        yield


def connect(script: str) -> socket.socket:
    """Connect to the server that forks the workers of a script."""
    uses_tensorflow = b"\nimport tensorflow" in pathlib.Path(script).read_bytes()
    server = socket.socket(socket.AF_UNIX)
    name = "tensorflow" if uses_tensorflow else "plain"
    server.connect(os.path.join(os.environ[ADDRESS], name))
    return server


def listen(listener: socket.socket, name: str) -> None:
    """Pass each request to the process of its script, until standard input is closed."""
    servers: dict[bytes, socket.socket] = {}
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        with listener.accept()[0] as connection:
            message, files, _, _ = socket.recv_fds(connection, 8192, 3)
        script, _, folder = message.partition(b"\0")
        if script not in servers:
            if name == "tensorflow":
                import_tensorflow()
            ours, theirs = socket.socketpair()
            if os.fork() == 0:
                for other in (listener, ours, *servers.values()):
                    other.close()
                for file in files:
                    os.close(file)
                os.dup2(theirs.detach(), 0)
                return serve(pathlib.Path(os.fsdecode(script)))
            theirs.close()
            servers[script] = ours
        with contextlib.suppress(OSError):  # the process failed to import the script
            socket.send_fds(servers[script], [folder], files)
        for file in files:
            os.close(file)


def import_tensorflow() -> None:
    """Import TensorFlow without Keras, which no worker of SavedModels may load."""
    sys.modules["keras"] = None  # type: ignore[assignment]
    importlib.import_module("tensorflow")
    del sys.modules["keras"]


def serve(script: pathlib.Path) -> None:
    """Import a script, then fork a process for each request, which runs and watches a worker."""
    requests = socket.socket(fileno=0)
    export = script.parents[2]
    folders = (script.parent, export / "runtimes", export.parent / "keras_norm_verify")
    sys.path[:0] = map(str, folders)
    names = runpy.run_path(str(script))
    load = names["load"]
    if "open_library" in names:
        names["open_library"]()  # TensorFlow's C library: 0.3 s for each worker
    gc.freeze()  # TensorFlow's converter collects garbage, which would copy every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the watching processes
    while True:
        folder, files, _, _ = socket.recv_fds(requests, 4096, 3)
        if not folder:
            return
        if os.fork() == 0:
            watch(load, folder, files)
        for file in files:
            os.close(file)


def watch(load: Any, folder: bytes, files: list[int]) -> None:
    """Fork a worker; report its process id and its exit status."""
    import worker_protocol as protocol

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection, stderr, ended = files
    worker = os.fork()
    if worker == 0:
        os.close(ended)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.chdir(folder)
        sys.argv = ["worker", str(connection)]
        protocol.serve(load)
        os._exit(0)
    for stream in (0, connection, stderr):
        os.close(stream)
    os.write(ended, struct.pack("i", worker))
    _, status = os.waitpid(worker, 0)
    os.write(ended, struct.pack("i", os.waitstatus_to_exitcode(status)))
    os._exit(0)


if __name__ == "__main__":
    listen(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
