"""The functions of a worker script, which runs or converts a file for its parent process.

Worker scripts import this module by its path. It depends on NumPy only, because a worker must
import neither Keras nor this package.
"""

import concurrent.futures
import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple, TypeAlias

import numpy as np
from channel import Channel, Json, end_with_parent
from run_over_time import Array as Array
from run_over_time import Arrays, run_over_time

Options: TypeAlias = dict[str, Json]
Run = Callable[[Arrays], Arrays]


def _refuse(inputs: Arrays) -> Arrays:
    raise ValueError(
        "the worker process has no model to run: it has loaded none, or it only converts models"
    )


class Loaded(NamedTuple):
    """A model loaded in a worker process: its description, and functions to run and inspect it.

    Attributes:
        report: describes the model to the runner; JSON can store it.
        run: a function from input arrays to output arrays. A worker that only converts has none.
        variable_digests: a function that returns a digest of each variable by name.
    """

    report: Json
    run: Run = _refuse
    variable_digests: Callable[[], dict[str, str]] = dict


Load: TypeAlias = Callable[[Options], Loaded]


class Worker:
    """The functions of a worker process, which its parent process calls.

    Args:
        load: a function of the worker script, from options to a `Loaded`.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._loaded = Loaded(None)
        self._seconds = 0.0

    def load(self, options: Options) -> Json:
        """Load or convert a model; return its report, such as the shapes of its inputs.

        The model replaces the model that was loaded before.
        """
        self._loaded = self._load(options)
        return self._loaded.report

    def run(self, inputs: Arrays) -> Arrays:
        """Run the loaded model on arrays by input name, and return its outputs by name."""
        start = time.perf_counter()
        outputs = self._loaded.run(inputs)
        self._seconds = time.perf_counter() - start
        return {name: np.asarray(array) for name, array in outputs.items()}

    def run_over_time(self, sequences: Arrays, others: Arrays, states: Sequence[str]) -> Arrays:
        """Run the loaded single-step model on whole sequences, one call for each timestep."""
        start = time.perf_counter()
        outputs: Arrays = run_over_time(self._loaded.run, sequences, others, states)
        length = next(iter(sequences.values())).shape[1]
        self._seconds = (time.perf_counter() - start) / length
        return outputs

    def run_at_once(
        self, cases: Sequence[Arrays], threads: int, seconds: float
    ) -> tuple[int, list[Arrays], list[Arrays]]:
        """Run the loaded model on many threads at once, with several different inputs.

        Args:
            cases: dicts of inputs. At most as many cases as threads, so that every case is run.
            threads: number of threads.
            seconds: duration of the test. Every thread runs the model at least once.

        Returns:
            (calls, lowest, highest). `calls` is the number of calls. `lowest` and `highest` have
            one dict per case: the lowest and highest value of each output element over all calls.
        """
        barrier, lock = threading.Barrier(threads), threading.Lock()
        lowest: list[Arrays] = [{} for _ in cases]
        highest: list[Arrays] = [{} for _ in cases]

        def call_repeatedly(thread: int) -> int:
            barrier.wait()
            end = time.monotonic() + seconds
            for calls in itertools.count(1):
                case = (thread + calls) % len(cases)
                outputs = self._loaded.run(cases[case])
                with lock:
                    # If an output is NaN in one call, np.minimum and np.maximum return NaN.
                    for name, value in outputs.items():
                        lowest[case][name] = np.minimum(lowest[case].get(name, value), value)
                        highest[case][name] = np.maximum(highest[case].get(name, value), value)
                if time.monotonic() >= end:
                    break
            return calls

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            calls = sum(pool.map(call_repeatedly, range(threads)))
        return calls, lowest, highest

    def seconds(self) -> float:
        """Return the seconds of the last run; after `run_over_time`, the mean of all timesteps."""
        return self._seconds

    def variable_digests(self) -> dict[str, str]:
        """Return a digest of each variable of the loaded model by name."""
        return self._loaded.variable_digests()

    def modules(self) -> list[str]:
        """Return the names of all top-level modules that the worker imported, such as "numpy"."""
        return sorted({name.partition(".")[0] for name, module in sys.modules.items() if module})


def serve(load: Load) -> None:
    """Run a worker script until its parent process ends it.

    The script's last command-line argument is the file number of the connection to the parent.

    Args:
        load: see `Worker`.
    """
    end_with_parent()
    Channel(Connection(int(sys.argv[-1])), Worker(load)).serve()
