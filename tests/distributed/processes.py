"""Run a program in several processes on this machine, or on several logical devices.

    def mean(place, x):
        return {"mean": place.shard(x).mean(axis=0)}

    first, second = run("jax", mean, tmp_path, x=np.ones((8, 3)))

A program is a function at the top level of a module. It receives its `child.Place` in the group and
the arrays, which are equal in all processes; `place.shard(x)` returns the rows of this process. It
returns a dict of arrays. The child process joins the group, and then imports the program's module.

    kind          processes    group
    multiworker   count        TensorFlow, MultiWorkerMirroredStrategy with TF_CONFIG
    mirrored      1            TensorFlow, MirroredStrategy of `count` logical CPU devices
    jax           count        jax.distributed, with collectives of gloo
    jax_devices   1            JAX, `count` CPU devices
    torch         count        torch.distributed, with gloo

With `count=1` the program runs on one device, with the whole batch.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
BACKENDS = {
    "multiworker": "tensorflow",
    "mirrored": "tensorflow",
    "jax": "jax",
    "jax_devices": "jax",
    "torch": "torch",
}
ONE_PROCESS = ("mirrored", "jax_devices")

Results = list[dict[str, np.ndarray]]


def run(
    kind: str,
    program: Callable[..., Mapping[str, object]],
    folder: pathlib.Path,
    count: int = 2,
    *,
    seconds: float = 150.0,
    environment: Mapping[str, str] | None = None,
    **arrays: object,
) -> Results:
    """Run a program in a group of processes; return the results of each process.

    The test fails, with the end of every stderr, if a process fails or is not ready in time. It is
    skipped if the backend is not installed.
    """
    with Group(kind, program, folder, count, environment=environment, **arrays) as group:
        return group.results(seconds)


class Processes:
    """Started commands, which are killed with their children at the end of the `with` block.

    Args:
        commands: arguments of Python, for each process.
        folder: folder of the texts of stderr and stdout.
        environments: all environment variables of each process.
        cwd: working folder of the processes.

    Attributes:
        processes: the processes, by rank.
    """

    def __init__(
        self,
        commands: Iterable[Sequence[str]],
        folder: pathlib.Path,
        environments: Iterable[Mapping[str, str]],
        cwd: pathlib.Path = ROOT,
    ) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        pairs = zip(commands, environments, strict=True)
        for rank, (command, environment) in enumerate(pairs):
            with open(self.folder / f"{rank}.stderr", "wb") as stderr:
                process = subprocess.Popen(
                    [sys.executable, *command],
                    cwd=cwd,
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    start_new_session=True,
                )
            self.processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for rank in range(len(self.processes)):
            self.kill(rank)

    def kill(self, rank: int) -> None:
        """Kill a process and its children with SIGKILL, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.processes[rank].pid, signal.SIGKILL)
        self.processes[rank].wait()

    def stderr(self, rank: int) -> str:
        """Return the stderr and stdout of a process until now."""
        return (self.folder / f"{rank}.stderr").read_text("utf-8", "replace")

    def wait(self, rank: int, seconds: float) -> int:
        """Return the exit status of a process; fail the test if it takes longer."""
        try:
            return self.processes[rank].wait(seconds)
        except subprocess.TimeoutExpired:
            self._fail(f"process {rank} still runs after {seconds:.0f} s")

    def wait_for_file(self, path: pathlib.Path, seconds: float) -> None:
        """Wait until a process has written a file; fail the test if it takes longer."""
        end = time.monotonic() + seconds
        while not path.exists():
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes):
                self._fail(f"no file {path}")
            time.sleep(0.02)

    def wait_for_all(self, seconds: float) -> None:
        """Wait until all processes have ended; fail the test if a process fails or takes longer.

        If a process fails, the rest has 5 s to end: it may wait for the failed process.
        """
        end = time.monotonic() + seconds
        while any(process.poll() is None for process in self.processes):
            if any(process.poll() for process in self.processes):
                end = min(end, time.monotonic() + 5.0)
            if time.monotonic() > end:
                self._fail("not ready in time")
            time.sleep(0.02)
        if any(process.returncode for process in self.processes):
            self._fail("failed")

    def _fail(self, reason: str) -> None:
        statuses = [process.poll() for process in self.processes]
        texts = [
            f"--- process {rank}, exit status {status}\n{self.stderr(rank)[-4000:]}"
            for rank, status in enumerate(statuses)
        ]
        pytest.fail(f"{reason}\n" + "\n".join(texts), pytrace=False)


class Group(Processes):
    """A group of processes that run a program.

    Args:
        kind: a key of `BACKENDS`.
        program: the function to run, at the top level of a module.
        folder: folder of the inputs, of the results and of the texts of stderr.
        count: number of processes, or of logical devices.
        environment: additional environment variables.
        **arrays: keyword arguments of the program, as NumPy can store them in a .npz file.
    """

    def __init__(
        self,
        kind: str,
        program: Callable[..., Mapping[str, object]],
        folder: pathlib.Path,
        count: int = 2,
        *,
        environment: Mapping[str, str] | None = None,
        **arrays: object,
    ) -> None:
        backend = BACKENDS[kind]
        if importlib.util.find_spec(backend) is None:
            pytest.skip(f"{backend} is not installed")
        folder = folder / f"{kind}_{program.__name__}_{time.monotonic_ns()}"
        folder.mkdir(parents=True)
        np.savez(folder / "arrays.npz", **arrays)
        size = 1 if kind in ONE_PROCESS else count
        place = {"kind": kind, "count": count}
        place["addresses"] = [f"127.0.0.1:{port}" for port in free_ports(size)]
        names = program.__module__, program.__name__, str(folder)
        commands = [
            ("-m", "tests.distributed.child", json.dumps(place | {"rank": rank}), *names)
            for rank in range(size)
        ]
        environment = child_environment(backend) | (environment or {})
        super().__init__(commands, folder, [environment] * size)

    def results(self, seconds: float) -> Results:
        """Wait for all processes, and return the results of each program."""
        self.wait_for_all(seconds)
        files = [self.folder / f"{rank}.npz" for rank in range(len(self.processes))]
        return [dict(np.load(file, allow_pickle=False)) for file in files]


def free_ports(count: int) -> list[int]:
    """Return different free ports of the loopback device."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def child_environment(backend: str) -> dict[str, str]:
    """Return the environment of a child process with a Keras backend, on CPUs only."""
    return {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        # Compilation takes most of the time. JAX finds the programs of earlier runs in the folder.
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / "build" / "jax_programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
