"""Peak memory of one training step, each variant in a process of its own.

It reads Linux' /proc. Run by itself, `python -m benchmarks.memory NAME BATCH TIME INPUTS UNITS`
prints the bytes.
"""

import contextlib
import ctypes
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks import settings
from benchmarks.results import Measurement
from benchmarks.settings import TRAINING, Settings, Shape

PLAIN_FORM = f"{settings.LN_LSTM}, plain form"  # that of the first steps
VARIANTS = (settings.LN_LSTM, PLAIN_FORM, settings.KERAS_LSTM, settings.RNN_CELL)


def peaks(config: Settings) -> Iterator[Measurement]:
    """Bytes that a warm training step holds at its peak beyond the built layer and its data."""
    sizes = [str(size) for size in config.memory]
    found = {}
    for name in VARIANTS:
        command = [sys.executable, "-m", "benchmarks.memory", name, *sizes]
        child = subprocess.run(command, capture_output=True, text=True)
        if child.returncode != 0:
            raise RuntimeError(f"the memory of {name} was not measured:\n{child.stderr}")
        found[name] = [float(child.stdout.split()[-1])]
    yield Measurement("memory", TRAINING, tuple(config.memory), found, unit="bytes")


def training_peak(name: str, shape: Shape) -> int:
    """Peak resident memory of the last of enough training steps, less that before the first."""
    from benchmarks import models, timing
    from keras_norm.rnn.forms import use_form

    plain = name == PLAIN_FORM
    with use_form("plain") if plain else contextlib.nullcontext():
        step = models.recurrent_step(settings.LN_LSTM if plain else name, shape, TRAINING)
        built = _resident("VmRSS")
        timing.warm(step)
        return peak_during(step.run) - built


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


if __name__ == "__main__":
    print(training_peak(sys.argv[1], Shape(*map(int, sys.argv[2:]))))
