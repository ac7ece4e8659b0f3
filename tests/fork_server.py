"""Fork worker processes from processes that have imported the worker's script.

`tests/forked_workers.py` starts this file by its path, as the exporter starts workers, so that no
other module is imported.
"""

import contextlib
import os
import pathlib
import runpy
import select
import signal
import socket
import struct
import sys
from typing import Any


def listen(listener: socket.socket) -> None:
    """Pass each request to the process of its script, until standard input is closed."""
    servers: dict[bytes, socket.socket] = {}
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        with listener.accept()[0] as connection:
            message, files, _, _ = socket.recv_fds(connection, 8192, 3)
        script, _, folder = message.partition(b"\0")
        if script not in servers:
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


def serve(script: pathlib.Path) -> None:
    """Import a script, then fork a process for each request, which runs and watches a worker."""
    requests = socket.socket(fileno=0)
    export = script.parents[2]
    folders = (script.parent, export / "runtimes", export.parent / "keras_norm_verify")
    sys.path[:0] = map(str, folders)
    load = runpy.run_path(str(script))["load"]
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
    listen(socket.socket(fileno=int(sys.argv[1])))
