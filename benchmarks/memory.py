"""Peak memory of a training step, measured in a fresh process per variant (Linux only)."""

import contextlib
import ctypes
import pathlib
import re
from collections.abc import Callable, Iterator

from benchmarks import fresh_process, models, settings, timing
from benchmarks.results import Measurement
from benchmarks.settings import TRAINING, Settings, Shape

VARIANTS = (settings.LN_LSTM, settings.KERAS_LSTM, settings.RNN_CELL)


def peaks(config: Settings) -> Iterator[Measurement]:
    """Measure the peak memory of a warm training step, without the built layer and its data."""
    values = fresh_process.rounds(training_peak, VARIANTS, 1, config.memory)
    yield Measurement("memory", TRAINING, tuple(config.memory), values, unit="bytes")


def training_peak(name: str, shape: Shape) -> float:
    """Return the peak resident memory of a warm step minus the memory before the first step."""
    step = models.recurrent_step(name, shape, TRAINING)
    built = resident("VmRSS")
    timing.warm(step)
    return float(peak_during(step.run) - built)


def peak_during(run: Callable[[], object]) -> int:
    """Return the peak resident memory of the process, in bytes, while a function runs.

    Freed memory is first returned to the system, if the C library (glibc) supports it. If the
    kernel cannot reset the peak, the result is the peak since the start of the process.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    run()
    return resident("VmHWM")


def resident(field: str) -> int:
    """Return the resident memory of the process (VmRSS) or its peak (VmHWM), in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(rf"{field}:\s+(\d+) kB", status)
    return int(kilobytes) * 1024
