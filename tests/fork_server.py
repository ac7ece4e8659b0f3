"""Processes that each have imported a worker's script, and fork workers: `tests/forked_workers.py`.

Run by path, as the workers are, so that they import nothing else than they do.
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
    """Pass on what is asked for, until whoever started this process ends."""
    servers: dict[bytes, socket.socket] = {}
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        with listener.accept()[0] as connection:
            message, files, _, _ = socket.recv_fds(connection, 8192, 4)
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
        with contextlib.suppress(OSError):  # it could not import the script, and has said so
            socket.send_fds(servers[script], [folder], files)
        for file in files:
            os.close(file)


def serve(script: pathlib.Path) -> None:
    """Be the process of a script: for each message a fork, which watches over a worker."""
    requests = socket.socket(fileno=0)
    sys.path[:0] = [str(script.parent), str(script.parents[2] / "runtimes")]
    load = runpy.run_path(str(script))["load"]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # of those that watch, nobody asks how they ended
    while True:
        folder, files, _, _ = socket.recv_fds(requests, 4096, 4)
        if not folder:
            return
        if os.fork() == 0:
            watch(load, folder, files)
        for file in files:
            os.close(file)


def watch(load: Any, folder: bytes, files: list[int]) -> None:
    """Fork a worker; report its number and how it ended."""
    import worker_protocol as protocol

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, ended = files
    worker = os.fork()
    if worker == 0:
        os.close(ended)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        protocol.serve(load)
        os._exit(0)
    for stream in (0, *streams):
        os.close(stream)
    os.write(ended, struct.pack("i", worker))
    _, status = os.waitpid(worker, 0)
    os.write(ended, struct.pack("i", os.waitstatus_to_exitcode(status)))
    os._exit(0)


if __name__ == "__main__":
    listen(socket.socket(fileno=int(sys.argv[1])))
