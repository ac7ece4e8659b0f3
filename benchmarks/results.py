"""Results of the benchmark, and their JSON file."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.timing import Spread, Timings, ratio

PACKAGES = {
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "numpy": "NumPy",
    "ai-edge-litert": "LiteRT",
}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Values of several variants on one shape, measured in turn.

    Attributes:
        suite: name of the suite.
        mode: "training", "inference", or another mode of the suite.
        shape: sizes, in the order of the suite.
        values: values of every round, by variant.
        unit: unit of the values, "s" or "bytes".
        first: seconds of the first call, which traces and may compile, by variant.
        compiled: whether XLA compiled in the timed rounds, which makes the times too long.
    """

    suite: str
    mode: str
    shape: tuple[int, ...]
    values: dict[str, list[float]]
    unit: str = "s"
    first: dict[str, float] = dataclasses.field(default_factory=dict)
    compiled: bool = False

    @classmethod
    def of(
        cls, suite: str, mode: str, shape: tuple[int, ...], timings: Timings[str]
    ) -> "Measurement":
        """Create a measurement from timings."""
        return cls(
            suite,
            mode,
            tuple(shape),
            timings.rounds,
            first=timings.first,
            compiled=timings.compiled,
        )

    def median(self, name: str) -> float:
        """Return the median of a variant's rounds."""
        return float(np.median(self.values[name]))

    def fastest(self, names: tuple[str, ...]) -> str | None:
        """Return the measured variant with the lowest median, of these names."""
        return min((name for name in names if name in self.values), key=self.median, default=None)

    def ratio(self, name: str, reference: tuple[str, ...]) -> Spread | None:
        """Divide a variant by the fastest variant of a reference; None if one is not measured."""
        fastest = self.fastest(reference)
        if fastest is None or name not in self.values:
            return None
        return ratio(self.values[name], self.values[fastest])


@dataclasses.dataclass(frozen=True)
class Results:
    """All measurements of one machine, with their settings."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    measurements: tuple[Measurement, ...]

    def of(self, suite: str, mode: str | None = None) -> list[Measurement]:
        """Return the measurements of a suite, in one mode or in all modes."""
        return [m for m in self.measurements if m.suite == suite and mode in (None, m.mode)]

    def ratios(
        self, suite: str, mode: str | None, name: str, reference: tuple[str, ...]
    ) -> list[float]:
        """Return the median ratio of a variant to a reference for each measurement with both."""
        spreads = [m.ratio(name, reference) for m in self.of(suite, mode)]
        return [spread.median for spread in spreads if spread is not None]

    def with_suite(self, suite: str, measurements: Iterable[Measurement]) -> "Results":
        """Return a copy with new measurements of one suite."""
        others = tuple(m for m in self.measurements if m.suite != suite)
        return dataclasses.replace(self, measurements=(*others, *measurements))

    def continues(self, other: "Results") -> bool:
        """Return whether both results have equal machines and settings, apart from the date."""
        mine, theirs = ({**r.settings, "date": None} for r in (self, other))
        return self.machine == other.machine and mine == theirs

    def save(self, path: pathlib.Path) -> None:
        """Write the JSON file, and create missing folders."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(self), indent=1)
        numbers = re.compile(r"\[[^\[\]{}]*\]")  # writes each list of numbers on one line
        path.write_text(numbers.sub(lambda m: " ".join(m[0].split()), text) + "\n")

    @classmethod
    def load(cls, path: pathlib.Path) -> "Results":
        """Read a JSON file of `save`."""
        data = json.loads(path.read_text())
        measurements = tuple(
            Measurement(**{**m, "shape": tuple(m["shape"])}) for m in data["measurements"]
        )
        return cls(data["machine"], data["settings"], measurements)


def this_machine() -> dict[str, Any]:
    """Describe this machine: processor, cores, memory, and versions of packages."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        **({"gpu": card} if (card := _gpu()) else {}),
        **_versions(),
    }


def begin(settings: dict[str, Any]) -> Results:
    """Create results without measurements, with this machine and today's date."""
    as_json = json.loads(json.dumps({"date": datetime.date.today().isoformat(), **settings}))
    return Results(this_machine(), as_json, ())


def describe(machine: dict[str, Any]) -> str:
    """Format the machine in one line."""
    versions = ", ".join(
        f"{PACKAGES[name]} {machine[name]}" for name in PACKAGES if name in machine
    )
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine.get('gpu', 'no GPU')}, {machine['system']}; "
        f"Python {machine['python']}, {versions}"
    )


def _versions() -> dict[str, str]:
    """Return the versions of the installed packages; JAX needs neither TensorFlow nor LiteRT."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _gpu() -> str | None:
    """Return the name of the first NVIDIA GPU; None without one."""
    command = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return printed.partition("\n")[0].strip() or None


def _processor() -> str:
    """Return the name of the processor with its family and model number."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(re.findall(r"^([^\t:]+?)\s*: (.*)$", text.split("\n\n")[0], re.MULTILINE))
    name = fields.get("model name", platform.machine())
    if "cpu family" not in fields:
        return name
    return f"{name} (family {fields['cpu family']}, model {fields['model']})"
