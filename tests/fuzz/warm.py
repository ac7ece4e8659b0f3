"""What `keras_norm.export.worker_process` needs of `subprocess`, faster by TensorFlow's import.

A worker is forked from a process that has imported TensorFlow, which each would do by itself.
"""

import multiprocessing
import multiprocessing.reduction
import os
import pathlib
import runpy
import sys
from collections.abc import Sequence
from subprocess import PIPE, TimeoutExpired
from typing import Any

__all__ = ["PIPE", "Popen", "TimeoutExpired"]

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tensorflow", __name__])


class Popen:
    """A Python script in a process that has imported TensorFlow.

    Args:
        command: the interpreter, which is taken to be this one, and the script.
        stderr: file that the script's standard error goes to.
        **options: `stdin` and `stdout`, which are pipes, and `env`, which stays this process's.
    """

    def __init__(self, command: Sequence[str], *, stderr: Any, **options: Any) -> None:
        request_end, stdin = os.pipe()
        stdout, reply_end = os.pipe()
        ends = (request_end, reply_end, stderr.fileno())
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        fds = [multiprocessing.reduction.DupFd(fd) for fd in ends]
        self._process = CONTEXT.Process(target=_run, args=(command[1], fds), daemon=True)
        self._process.start()
        os.close(request_end)
        os.close(reply_end)

    def wait(self, timeout: float | None = None) -> int:
        """As that of `subprocess.Popen`."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired("worker", timeout or 0.0)
        return self._process.exitcode

    def kill(self) -> None:
        """As that of `subprocess.Popen`."""
        self._process.kill()


def _run(script: str, fds: Sequence[Any]) -> None:
    for number, fd in enumerate(fds):
        os.dup2(fd.detach(), number)
    sys.stdin = os.fdopen(0)
    sys.path.insert(0, str(pathlib.Path(script).parent))
    runpy.run_path(script, run_name="__main__")
