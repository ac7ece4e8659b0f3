"""Measure the size, the operations and the latency of an exported file."""

import pathlib
import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.compare.input_cases import Samples
from keras_norm.export.results.artifact_result import Cost

# Most calls that are timed, and the seconds after which no further call starts.
CALLS, SECONDS = 5, 0.25


def measure_cost(run: Any, samples: Samples, batch: int, size: int | None = None) -> Cost:
    """Measure a runner's size and operations, and time some calls.

    Args:
        run: a runner, or any function from arrays to arrays.
        samples: real data.
        batch: the largest batch size to time.
        size: size in bytes of a model without a file.
    """
    path = getattr(run, "path", None)
    # A single-step file has a static batch size, so only this batch size can be timed.
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
    """Return the bytes of a file, or of all files in a directory."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def milliseconds(run: Any, inputs: Mapping[str, np.ndarray]) -> float:
    """Return the median latency of a call in milliseconds; a first warm-up call is not counted.

    Args:
        run: a runner, or any function. If it has a method `seconds()`, that returns the duration of
            its last call and is used instead of the wall clock.
        inputs: arrays by input name.
    """
    run(inputs)
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while not taken or (len(taken) < CALLS and time.perf_counter() < end):
        start = time.perf_counter()
        run(inputs)
        whole = time.perf_counter() - start
        measured = run.seconds() if hasattr(run, "seconds") else None
        taken.append(whole if measured is None else measured)
    return 1e3 * statistics.median(taken)
