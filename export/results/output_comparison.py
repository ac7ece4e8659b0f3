"""The differences between the actual and the expected values of one output."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Element:
    """One value of an output, with its expected value.

    Attributes:
        where: named index of the value, as (axis, index) pairs.
        expected: expected value at `where`.
        actual: actual value at `where`.
    """

    where: tuple[tuple[str, int], ...]
    expected: float
    actual: float

    @property
    def difference(self) -> float:
        """|actual - expected|: infinite if a value is NaN, 0 if both are equal infinities."""
        if self.actual == self.expected:
            return 0.0
        found = abs(self.actual - self.expected)
        return math.inf if math.isnan(found) else found

    def excess(self, rtol: float) -> float:
        """Return the smallest `atol` with which this value passes, for a given `rtol`.

        The result is negative if the difference is smaller than rtol |expected|.
        """
        found = self.difference
        return found - rtol * abs(self.expected) if 0.0 < found < math.inf else found

    def used(self, rtol: float, atol: float) -> float:
        """Return |actual - expected| as a share of the tolerance, atol + rtol |expected|."""
        found, allowed = self.difference, atol + rtol * abs(self.expected)
        if found in (0.0, math.inf):
            return found
        return found / allowed if allowed else math.inf


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Differences between one output of an artifact and of the Keras model, without a verdict.

    `keras_norm.export.compare.output_differences.merge_measurements` merges the measurements of
    several batches.

    Attributes:
        output: name of the output.
        rtol: relative tolerance that was used to find `worst`; 0 for integers.
        problem: the reason why elements could not be compared, or None.
        exact: whether the values are integers, so that they must be equal.
        count: number of elements.
        scale: the largest finite |expected|.
        max_abs: worst |actual - expected|.
        max_rel: worst |actual - expected| / |expected|, where `expected` is not 0.
        worst: the element that needs the largest `atol`.
        widest: the element that differs most.
        nan_expected: number of NaN in the expected values.
        nan_actual: number of NaN in the actual values.
        infinite: number of elements where only one of the two values is infinite.
        squared: the sum of (actual - expected)^2; for integers, the number of different values.
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

    @property
    def atol_needed(self) -> float | None:
        """Smallest `atol` that passes with this `rtol`; None if integers differ."""
        if self.worst is None:
            return None
        needed = max(self.worst.excess(self.rtol), 0.0)
        return None if self.exact and needed else needed


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputComparison(Measurement):
    """Measured differences of one output, with a verdict. Falsy when the comparison failed.

    Attributes:
        passed: whether every element has |actual - expected| <= atol + rtol |expected|. The output
            must also have the expected shape and kind of dtype, and no NaN.
        atol: absolute tolerance used.
        used: |actual - expected| / (atol + rtol |expected|), the used share of the tolerance; at
            most 1 for a comparison that passes. The larger share of `worst` and `widest`.
        rms: root mean square of the differences, if the output is judged by it (8-bit files);
            else None. `atol` is then the largest `rms` that passes, and `used` is rms / atol.
        rounding: the difference that rounding alone causes in the Keras model, if the comparison
            passes because of it; else None.
    """

    passed: bool
    atol: float
    used: float | None = None
    rms: float | None = None
    rounding: float | None = None

    @property
    def where(self) -> tuple[tuple[str, int], ...]:
        """Position of the element that needs the largest `atol`: (("sample", 3), ("unit", 0))."""
        return self.worst.where if self.worst else ()

    @property
    def allowed(self) -> float:
        """The largest difference that passes at the worst element: atol + rtol |expected|."""
        return self.atol + self.rtol * abs(self.worst.expected if self.worst else 0.0)

    @property
    def description(self) -> str:
        """A line that says how much an output differs, for a comparison that failed."""
        if self.problem or self.worst is None:
            return f"output {self.output!r}: {self.problem}"
        where, found = describe_position(self.where), self.worst
        element = f"{where}: {found.actual:.6g}, expected {found.expected:.6g}"
        if self.rms is not None:
            return (
                f"output {self.output!r} differs by a root mean square of {self.rms:.3g}, with a "
                f"limit of {self.atol:.2g}, and by up to {self.max_abs:.3g} ({element})"
            )
        needed = "" if self.atol_needed is None else f", needs atol {self.atol_needed:.2g}"
        return f"output {self.output!r} differs by up to {self.max_abs:.3g}{needed} ({element})"

    def __bool__(self) -> bool:
        return self.passed


@dataclasses.dataclass(frozen=True)
class DifferenceProfile:
    """Histogram and map of an output's absolute differences from the expected values.

    Attributes:
        axes: the axes of `worst`: ("timestep", "unit") for output sequences, ("unit",) or
            ("sample",) for other outputs.
        widths: number of indices of each axis in one cell: 1, or a power of two if the axis has
            more than `CELLS` indices.
        worst: worst absolute difference in each cell, to three digits: a tuple of numbers for one
            axis, a tuple of tuples for two axes.
        counts: histogram of the differences; the bins end at the bounds in `DECADES`.
        scale: the largest absolute expected value.
    """

    axes: tuple[str, ...]
    widths: tuple[int, ...]
    worst: tuple[Any, ...]
    counts: tuple[int, ...]
    scale: float

    @property
    def equal(self) -> bool:
        """Whether every element of the output is equal to its expected value."""
        return self.counts[0] == sum(self.counts)


@dataclasses.dataclass(frozen=True)
class ErrorStatistics:
    """The error of one output of an artifact over all data, and the number of changed predictions.

    An output predicts classes if it holds integers, if it has integer labels, if its last axis is a
    probability distribution (softmax), or if it is a single float between 0 and 1.

    Attributes:
        predictions: number of predictions; 0 if the output does not predict classes.
        changed: number of predictions with another class than in the Keras model.
        rms: root mean square of actual - expected; None for integers.
        deviation: standard deviation of the output of the Keras model over the samples; None for
            integers.
        worst: the value that differs most; None for integers.
    """

    predictions: int = 0
    changed: int = 0
    rms: float | None = None
    deviation: float | None = None
    worst: Element | None = None

    @property
    def equal_share(self) -> float | None:
        """The share of predictions equal to the Keras model's; None if the output has none."""
        return 1.0 - self.changed / self.predictions if self.predictions else None

    @property
    def rms_share(self) -> float | None:
        """Root mean square error divided by the output's standard deviation; None for integers.

        The result is infinite if an output with the standard deviation 0 has an error.
        """
        if self.rms is None or self.deviation is None:
            return None
        if self.deviation:
            return self.rms / self.deviation
        return math.inf if self.rms else 0.0

    @property
    def max_abs(self) -> float | None:
        """The largest absolute difference; None for integers."""
        return None if self.worst is None else self.worst.difference


@dataclasses.dataclass(frozen=True)
class OutputResult:
    """Comparisons of one output of one artifact, over all test inputs.

    Attributes:
        output: name of the output.
        cases: name of each test input.
        comparisons: one comparison for each of `cases`; the sample index in `where` counts over the
            user's data.
        profile: distribution of the differences over all test inputs; None if shapes differed.
        errors: the error over all data; None if the values could not be compared.
    """

    output: str
    cases: tuple[str, ...]
    comparisons: tuple[OutputComparison, ...]
    profile: DifferenceProfile | None
    errors: ErrorStatistics | None = None

    @property
    def passed(self) -> bool:
        """Whether the comparison passed for every test input."""
        return all(self.comparisons)

    @property
    def worst_case(self) -> int:
        """Index of the test input on which the output differs most from the expected output.

        Test inputs that could not be compared come first, then failures, then the test input that
        needs the largest `atol`.
        """

        def badness(k: int) -> tuple[bool, bool, float, float]:
            c = self.comparisons[k]
            return c.problem is not None, not c.passed, c.atol_needed or 0.0, c.max_abs or 0.0

        return max(range(len(self.cases)), key=badness)

    @property
    def used(self) -> float | None:
        """The largest ratio of a difference to its tolerance, over all test inputs."""
        return largest_known(c.used for c in self.comparisons)

    @property
    def max_abs(self) -> float | None:
        """Worst absolute difference over all test inputs."""
        return largest_known(c.max_abs for c in self.comparisons)

    @property
    def max_rel(self) -> float | None:
        """Worst relative difference over all test inputs."""
        return largest_known(c.max_rel for c in self.comparisons)


def describe_position(where: Iterable[tuple[str, int]]) -> str:
    """Return the text for an element's (axis, index) pairs: "sample 3, timestep 7"."""
    return ", ".join(f"{axis} {index}" for axis, index in where)


def largest_known(values: Iterable[float | None]) -> float | None:
    """Return the largest number, or NaN if any number is NaN; None if every value is None."""
    known = [value for value in values if value is not None]
    return next((v for v in known if math.isnan(v)), max(known, default=None))
