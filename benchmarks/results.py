"""What was measured, and its JSON file."""

import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.timing import Spread, Timings, ratio

PACKAGES = ("tensorflow", "keras", "numpy", "ai-edge-litert")


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Variants measured in turn on one shape.

    Attributes:
        suite: the part of the benchmark it belongs to.
        mode: "training", "inference", or what else the suite tells apart.
        shape: sizes, in the suite's order.
        values: every round's value of every variant.
        unit: of the values; "s" or "bytes".
        first: seconds of the first call, which traces and may compile.
        compiled: whether a program was compiled in the timed rounds, so that they are off.
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
        """The measurement that timings make."""
        return cls(
            suite,
            mode,
            tuple(shape),
            timings.rounds,
            first=timings.first,
            compiled=timings.compiled,
        )

    def median(self, name: str) -> float:
        """The median of a variant's rounds."""
        return float(np.median(self.values[name]))

    def fastest(self, names: tuple[str, ...]) -> str | None:
        """The variant with the lowest median among those of these names that were measured."""
        return min((name for name in names if name in self.values), key=self.median, default=None)

    def ratio(self, name: str, reference: tuple[str, ...]) -> Spread | None:
        """A variant against the fastest of a reference's; None where either was not measured."""
        fastest = self.fastest(reference)
        if fastest is None or name not in self.values:
            return None
        return ratio(self.values[name], self.values[fastest])


@dataclasses.dataclass(frozen=True)
class Results:
    """All measurements of one machine, and what they were made with."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    measurements: tuple[Measurement, ...]

    def of(self, suite: str, mode: str | None = None) -> list[Measurement]:
        """The measurements of a suite, in one mode or in all."""
        return [m for m in self.measurements if m.suite == suite and mode in (None, m.mode)]

    def ratios(
        self, suite: str, mode: str | None, name: str, reference: tuple[str, ...]
    ) -> list[float]:
        """A variant's share of a reference's time in each measurement that has both."""
        found = [m.ratio(name, reference) for m in self.of(suite, mode)]
        return [spread.median for spread in found if spread is not None]

    def with_suite(self, suite: str, measurements: Iterable[Measurement]) -> "Results":
        """These with the measurements of one suite in place of those it had."""
        kept = tuple(m for m in self.measurements if m.suite != suite)
        return dataclasses.replace(self, measurements=(*kept, *measurements))

    def continues(self, other: "Results") -> bool:
        """Whether both were made on one machine and with the same settings, on whatever day."""
        mine, theirs = ({**r.settings, "date": None} for r in (self, other))
        return self.machine == other.machine and mine == theirs

    def save(self, path: pathlib.Path) -> None:
        """Write JSON; missing folders are made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dataclasses.asdict(self), indent=1)
        numbers = re.compile(r"\[[^\[\]{}]*\]")  # a list of numbers on one line
        path.write_text(numbers.sub(lambda m: " ".join(m[0].split()), text) + "\n")

    @classmethod
    def load(cls, path: pathlib.Path) -> "Results":
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        measurements = tuple(
            Measurement(**{**m, "shape": tuple(m["shape"])}) for m in data["measurements"]
        )
        return cls(data["machine"], data["settings"], measurements)


def this_machine() -> dict[str, Any]:
    """Processor, cores, memory, and the versions that matter."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def begin(settings: dict[str, Any]) -> Results:
    """No measurements yet, on this machine and this day."""
    plain = json.loads(json.dumps({"date": datetime.date.today().isoformat(), **settings}))
    return Results(this_machine(), plain, ())


def describe(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"no GPU, {machine['system']}; Python {machine['python']}, "
        f"TensorFlow {machine['tensorflow']}, Keras {machine['keras']}, NumPy {machine['numpy']}, "
        f"LiteRT {machine['ai-edge-litert']}"
    )


def _processor() -> str:
    """The processor's own name, with what tells models of one name apart."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(re.findall(r"^([^\t:]+?)\s*: (.*)$", text.split("\n\n")[0], re.MULTILINE))
    name = fields.get("model name", platform.machine())
    if "cpu family" not in fields:
        return name
    return f"{name} (family {fields['cpu family']}, model {fields['model']})"
