"""A process that has imported a worker's script, and forks workers: `tests/forked_workers.py`.

Run by path, as the workers are, so that it imports nothing else than they do.
"""

import os
import pathlib
import runpy
import signal
import socket
import struct
import sys
from typing import Any


def serve(script: pathlib.Path) -> None:
    """Be that process: for each message a fork, which watches over a worker."""
    requests = socket.socket(fileno=0)
    sys.path.insert(0, str(script.parent))
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
    import protocol

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
    serve(pathlib.Path(sys.argv[1]))
