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
        atol_needed: smallest atol that passes with this rtol; None where integers differ.
        used: |actual - expected| / (atol + rtol |expected|), the share of the tolerance that is
            used, up to 1 where it passes: of the element that needs `atol_needed`, or of the one
            that differs most, whichever uses more.
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

    @property
    def allowed(self) -> float:
        """By how much the value at `where` may differ."""
        return self.atol + self.rtol * abs(self.expected or 0.0)

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
class Element:
    """One value of an output.

    Attributes:
        where: its named index, as (axis, index) pairs.
        expected: value expected there.
        actual: value found there.
    """

    where: tuple[tuple[str, int], ...]
    expected: float
    actual: float

    @property
    def difference(self) -> float:
        """|actual - expected|; infinite where one is NaN, 0 for the same infinity."""
        if self.actual == self.expected:
            return 0.0
        found = abs(self.actual - self.expected)
        return math.inf if math.isnan(found) else found

    def excess(self, rtol: float) -> float:
        """The atol that it needs with this rtol; below 0 where it needs none."""
        found = self.difference
        return found - rtol * abs(self.expected) if 0.0 < found < math.inf else found

    def used(self, rtol: float, atol: float) -> float:
        """The share of a tolerance that it uses."""
        found, allowed = self.difference, atol + rtol * abs(self.expected)
        if found in (0.0, math.inf):
            return found
        return found / allowed if allowed else math.inf


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How far one output is from what was expected, before any absolute tolerance is set.

    Those of several parts of the data merge, in any order
    (`keras_norm.export.compare.merge.merged`).

    Attributes:
        output: name of the output.
        rtol: relative tolerance that `worst` was found with.
        problem: why elements could not be compared, or None.
        exact: whether the values are whole numbers, which must be equal.
        count: number of elements.
        scale: the largest finite |expected|.
        max_abs: worst |actual - expected|.
        max_rel: worst |actual - expected| / |expected|, where `expected` is not 0.
        worst: the element that needs the widest atol.
        widest: the element that differs most.
        nan_expected: how often NaN was expected.
        nan_actual: how often NaN was found.
        infinite: how often one side alone was infinite.
        squared: the sum of (actual - expected)^2; of whole numbers, how many are others.
        profile: the spread of the differences.
    """

    output: str
    rtol: float
    problem: str | None = None
    exact: bool = False
    count: int = 0
    scale: float = 0.0
    max_abs: float | None = None
    max_rel: float | None = None
    worst: Element | None = None
    widest: Element | None = None
    nan_expected: int = 0
    nan_actual: int = 0
    infinite: int = 0
    squared: float = 0.0
    profile: DifferenceProfile | None = None


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

        def badness(k: int) -> tuple[bool, bool, float, float]:
            c = self.comparisons[k]
            return c.problem is not None, not c.passed, c.atol_needed or 0.0, c.max_abs or 0.0

        return max(range(len(self.cases)), key=badness)

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
    needed = "" if result.atol_needed is None else f", needs atol {result.atol_needed:.2g}"
    return (
        f"output {result.output!r} differs by up to {result.max_abs:.3g}{needed} ({where}: "
        f"{result.actual:.6g} for {result.expected:.6g})"
    )


def largest_known(values: Iterable[float | None]) -> float | None:
    """The largest number, NaN where there is one; None where there are none."""
    known = [value for value in values if value is not None]
    return next((v for v in known if math.isnan(v)), max(known, default=None))
