"""Peak memory of one training step, each variant in a process of its own; it reads Linux' /proc."""

import contextlib
import ctypes
import pathlib
import re
from collections.abc import Callable, Iterator

from benchmarks import fresh, models, settings, timing
from benchmarks.results import Measurement
from benchmarks.settings import TRAINING, Settings, Shape

VARIANTS = (settings.LN_LSTM, settings.KERAS_LSTM, settings.RNN_CELL)


def peaks(config: Settings) -> Iterator[Measurement]:
    """Bytes that a warm training step holds at its peak beyond the built layer and its data."""
    found = fresh.rounds(training_peak, VARIANTS, 1, config.memory)
    yield Measurement("memory", TRAINING, tuple(config.memory), found, unit="bytes")


def training_peak(name: str, shape: Shape) -> float:
    """Peak resident memory of the last of enough training steps, less that before the first."""
    step = models.recurrent_step(name, shape, TRAINING)
    built = _resident("VmRSS")
    timing.warm(step)
    return float(peak_during(step.run) - built)


def peak_during(run: Callable[[], object]) -> int:
    """The most bytes that the process holds while it runs this.

    Where the kernel may not measure the peak anew, that of the process so far. What was freed
    before is first given back, where the C library (glibc) can: it is not what the run needs.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    run()
    return _resident("VmHWM")


def _resident(field: str) -> int:
    """Bytes of memory that the process holds (VmRSS) or held at its peak (VmHWM)."""
    status = pathlib.Path("/proc/self/status").read_text()
    (kilobytes,) = re.findall(rf"{field}:\s+(\d+) kB", status)
    return int(kilobytes) * 1024
