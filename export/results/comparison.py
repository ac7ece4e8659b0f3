"""How the values of one output differ from what was expected."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass(frozen=True)
class OutputComparison:
    """How one output differs from what was expected of it. Falsy when it failed.

    Attributes:
        output: name of the output.
        passed: whether every element has |actual - expected| <= atol + rtol |expected|, with the
            shape and the kind of dtype that were expected, and no NaN.
        problem: why elements could not be compared, or None.
        rtol: relative tolerance used.
        atol: absolute tolerance used.
        max_abs: worst |actual - expected|.
        max_rel: worst |actual - expected| / |expected|, where `expected` is not 0.
        atol_needed: smallest atol that passes with this rtol.
        used: worst |actual - expected| / (atol + rtol |expected|): the share of the tolerance that
            is used, up to 1 where it passes.
        where: named index of the element that needs `atol_needed`, as (axis, index) pairs.
        expected: value expected there.
        actual: value found there.
        rms: root mean square of the differences, where it is what judges, as of files in eight
            bits: `atol` is then the largest that passes, and `used` its share of that.
    """

    output: str
    passed: bool
    problem: str | None
    rtol: float
    atol: float
    max_abs: float | None = None
    max_rel: float | None = None
    atol_needed: float | None = None
    used: float | None = None
    where: tuple[tuple[str, int], ...] = ()
    expected: float | None = None
    actual: float | None = None
    rms: float | None = None

    def __bool__(self) -> bool:
        return self.passed


@dataclasses.dataclass(frozen=True)
class DifferenceProfile:
    """How the absolute differences of one output are spread.

    Attributes:
        axes: the axes of `worst`: ("timestep", "unit") for sequences, ("unit",) or ("sample",) for
            others.
        widths: how many indices of each axis one cell stands for: 1, or a power of two where there
            are more than `CELLS`.
        worst: worst absolute difference in each cell, to three digits; a tuple of numbers, or of
            such tuples for two axes.
        counts: number of elements by size of difference: those up to each bound in `DECADES`.
        scale: the largest absolute value that was expected.
    """

    axes: tuple[str, ...]
    widths: tuple[int, ...]
    worst: tuple[Any, ...]
    counts: tuple[int, ...]
    scale: float

    @property
    def equal(self) -> bool:
        """Whether no element differs at all."""
        return self.counts[0] == sum(self.counts)


@dataclasses.dataclass(frozen=True)
class OutputResult:
    """One output of one artefact, over all cases.

    Attributes:
        output: name of the output.
        cases: name of each case.
        comparisons: the comparison of each case; the sample in `where` counts in the user's data.
        profile: the spread of the differences over all cases, None where shapes differed.
    """

    output: str
    cases: tuple[str, ...]
    comparisons: tuple[OutputComparison, ...]
    profile: DifferenceProfile | None

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return all(self.comparisons)

    @property
    def worst_case(self) -> int:
        """Index of the case that failed, or else of the one that needs the widest tolerance."""
        return max(range(len(self.cases)), key=lambda k: _badness(self.comparisons[k]))

    @property
    def used(self) -> float | None:
        """The largest share of its tolerance that any value uses, over all cases."""
        return largest_known(c.used for c in self.comparisons)

    @property
    def max_abs(self) -> float | None:
        """Worst absolute difference over all cases."""
        return largest_known(c.max_abs for c in self.comparisons)

    @property
    def max_rel(self) -> float | None:
        """Worst relative difference over all cases."""
        return largest_known(c.max_rel for c in self.comparisons)


def difference(result: OutputComparison) -> str:
    """A failed comparison in one line."""
    if result.problem:
        return f"output {result.output!r}: {result.problem}"
    where = ", ".join(f"{axis} {index}" for axis, index in result.where)
    if result.rms is not None:
        return (
            f"output {result.output!r} is off by {result.rms:.3g} (root mean square), of which "
            f"{result.atol:.2g} is allowed, and by up to {result.max_abs:.3g} ({where}: "
            f"{result.actual:.6g} for {result.expected:.6g})"
        )
    return (
        f"output {result.output!r} differs by up to {result.max_abs:.3g}, needs atol "
        f"{result.atol_needed:.2g} ({where}: {result.actual:.6g} for {result.expected:.6g})"
    )


def largest_known(values: Iterable[float | None]) -> float | None:
    """The largest number, NaN where there is one; None where there are none."""
    known = [value for value in values if value is not None]
    return next((v for v in known if math.isnan(v)), max(known, default=None))


def _badness(result: OutputComparison) -> tuple[bool, bool, float, float]:
    return (
        result.problem is not None,
        not result.passed,
        result.atol_needed or 0.0,
        result.max_abs or 0.0,
    )
