"""Run many trials in parallel processes. Each process ends after some models, to free memory."""

import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from unittest import mock

from tests import fork_server, forked_workers
from tests.fuzz.trial import FAILED, Outcome, Trial, run_trial

MODELS_A_PROCESS = 20  # TensorFlow keeps every graph in memory
SECONDS_A_TRIAL = 900


class Campaign:
    """Run the trials of some seeds.

    Args:
        seeds: the seeds of the models.
        processes: number of parallel processes.
        seconds: time limit of the campaign.
        report: function that gets every finished trial, one at a time.
    """

    def __init__(
        self, seeds: Sequence[int], processes: int, seconds: float, report: Callable[[Trial], None]
    ) -> None:
        self._chunks = [
            seeds[i : i + MODELS_A_PROCESS] for i in range(0, len(seeds), MODELS_A_PROCESS)
        ]
        self._processes = processes
        self._seconds = seconds
        self._report = report
        self._lock = threading.Lock()
        self._stopped = False
        self._running: set[subprocess.Popen[str]] = set()

    def run(self) -> None:
        """Run all trials, or as many as the time allows."""
        clock = threading.Timer(self._seconds, self._stop)
        clock.start()
        with concurrent.futures.ThreadPoolExecutor(self._processes) as pool:
            try:
                for _ in pool.map(self._run_chunk, self._chunks):
                    pass
            finally:
                clock.cancel()
                self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()

    def _run_chunk(self, seeds: Sequence[int]) -> None:
        """Run these seeds; if a seed ends its process, run the next seeds in a new process."""
        while seeds:
            started = time.monotonic()
            with self._lock:
                if self._stopped:
                    return
                process = _start(seeds)
                self._running.add(process)
            with process:
                for line in process.stdout or ():
                    self._finish(_read(line))
                    seeds, started = seeds[1:], time.monotonic()
            self._running.discard(process)
            if seeds:
                outcome = Outcome(FAILED, f"the process ended with status {process.returncode}")
                seconds = time.monotonic() - started
                self._finish(Trial(seeds[0], "", "", {"model": outcome}, seconds))
                seeds = seeds[1:]

    def _finish(self, trial: Trial) -> None:
        with self._lock:
            if not self._stopped:
                self._report(trial)


def run_here(seeds: Sequence[int]) -> None:
    """Run trials in this process, and print each trial as one line of JSON."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # TensorFlow prints to stdout too
    with (
        fork_server.forking(),
        mock.patch("keras_norm.export.runtimes.worker_process.start", forked_workers.start),
    ):
        for seed in seeds:
            signal.alarm(SECONDS_A_TRIAL)  # ends a process that hangs
            trial = run_trial(seed)
            print(json.dumps(dataclasses.asdict(trial)), file=replies, flush=True)


def _start(seeds: Sequence[int]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz", "--here", *map(str, seeds)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _read(line: str) -> Trial:
    found = json.loads(line)
    outcomes = {kind: Outcome(**outcome) for kind, outcome in found.pop("outcomes").items()}
    return Trial(**found, outcomes=outcomes)
