"""What an exported file costs: bytes, operations, and milliseconds of a call."""

import pathlib
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.compare.input_cases import Samples
from keras_norm.export.results.artifact_result import Cost

# Calls that are timed, and the seconds after which no further one begins.
CALLS, SECONDS = 5, 0.25


def measure_cost(run: Any, samples: Samples, batch: int, size: int | None = None) -> Cost:
    """Count a runner's bytes and operations, and time a few calls.

    Args:
        run: a runner, or any function from arrays to arrays.
        samples: real data.
        batch: the largest batch size to time.
        size: bytes, where there is no file.
    """
    path = getattr(run, "path", None)
    # A step alone runs in the one batch that it has, whatever is asked for.
    alone = getattr(run, "batch", None)
    sizes = [alone] if alone else sorted({samples.batch or 1, batch})
    used = run.ops() if hasattr(run, "ops") else {}
    ops = sorted(((op, len(places)) for op, places in used.items()), key=lambda x: (-x[1], x[0]))
    return Cost(
        size=size if path is None else file_size(path),
        latency=tuple((n, milliseconds(run, samples.case(range(n)).inputs)) for n in sizes),
        ops=tuple(ops),
        arena=getattr(run, "arena", None),
        per_timestep=alone is not None,
    )


def file_size(path: pathlib.Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def milliseconds(run: Any, inputs: Mapping[str, np.ndarray]) -> float:
    """Median time of a call, after a first one that is not counted.

    Args:
        run: a runner, which may tell by `seconds()` how long its last call took, or any function.
        inputs: arrays by input name.
    """
    run(inputs)
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while not taken or (len(taken) < CALLS and time.perf_counter() < end):
        start = time.perf_counter()
        run(inputs)
        whole = time.perf_counter() - start
        taken.append(run.seconds() if hasattr(run, "seconds") else whole)
    return 1e3 * statistics.median(taken)
