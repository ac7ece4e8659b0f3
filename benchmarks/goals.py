"""The figures that were to be reached, beside those that were measured."""

import dataclasses
from collections.abc import Iterator

from benchmarks.results import Results
from benchmarks.settings import REFERENCES, TARGETS
from benchmarks.timing import geometric_mean

REACHED, UNREACHED = "reached", "not reached"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure and its upper bound."""

    what: str
    measured: float
    at_most: float

    @property
    def reached(self) -> bool:
        """Whether the figure, as it is printed, is within its bound."""
        return round(self.measured, 2) <= self.at_most


def goals(results: Results) -> Iterator[Goal]:
    """The goals of the suites that were run."""
    for target in TARGETS:
        reference = REFERENCES[target.reference]
        ratios = results.ratios(target.suite, target.mode, target.name, reference)
        if not ratios:
            continue
        what = f"{target.what}: {target.name} / {target.reference}"
        yield Goal(what, geometric_mean(ratios), target.mean)
        if target.worst is not None:
            yield Goal(f"{what}, worst", max(ratios), target.worst)
