"""Goals of the benchmark, and whether the results reach them."""

import dataclasses
from collections.abc import Iterator

from benchmarks.results import Results
from benchmarks.settings import REFERENCES, TARGETS
from benchmarks.timing import geometric_mean

REACHED, UNREACHED = "reached", "not reached"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A measured ratio and its upper bound."""

    name: str
    measured: float
    at_most: float

    @property
    def reached(self) -> bool:
        """Whether the ratio, rounded to the printed digits, is within its bound."""
        return round(self.measured, 2) <= self.at_most


def goals(results: Results) -> Iterator[Goal]:
    """Yield the goals of the suites in the results."""
    for target in TARGETS:
        reference = REFERENCES[target.reference]
        ratios = results.ratios(target.suite, target.mode, target.name, reference)
        if not ratios:
            continue
        name = f"{target.use}: {target.name} / {target.reference}"
        yield Goal(name, geometric_mean(ratios), target.mean)
        if target.worst is not None:
            yield Goal(f"{name}, worst", max(ratios), target.worst)
