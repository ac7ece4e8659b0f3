"""How far values may be off: by what precision, through how many layers and timesteps."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_norm.export.compare.element_differences import Arrays, magnitude
from keras_norm.export.compare.merge import merged
from keras_norm.export.compare.output_differences import judge, measure
from keras_norm.export.results.output_comparison import Measurement, OutputComparison

# Tolerances by precision, coarsest first: some units in the last place of the type, for the sums
# that a recurrence gathers. Of each value (rtol), and of an output's largest value (atol). "int8"
# is a TFLite file whose weights are quantized to it.
TOLERANCES = {
    "int8": 5e-2,
    "bfloat16": 5e-2,
    "float16": 1e-2,
    "float32": 1e-5,
    "float64": 1e-9,
}
# How many whole numbers of a quantized file may be others, and one of a few, where it gives nothing
# else: a rounded weight may turn an argmax.
TURNED = 0.25
# One of them serves as many as this many layers times the square root of the timesteps. Measured
# (docs/export.md): float32 is then off from float64 by an eighth of it.
REACH = 10.0


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """|actual - expected| <= atol + rtol |expected|, with an atol for every output.

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance, by output.
        turned: the share of whole numbers that may be others; 0 where all have to be equal.
        limits: the largest root mean square of an output's differences, by output, which is then
            what judges it (`keras_norm.export.compare.quantization_tolerance`); None elsewhere.
    """

    rtol: float
    atol: Mapping[str, float]
    turned: float = 0.0
    limits: Mapping[str, float] | None = None

    def at_most(self, expected: Arrays) -> dict[str, float]:
        """The most that any value of each of these outputs may be off."""
        return {n: self.atol[n] + self.rtol * magnitude(y) for n, y in expected.items()}

    def judge(self, found: Measurement) -> OutputComparison:
        """What was measured of an output, judged by the tolerance.

        Args:
            found: of `keras_norm.export.compare.output_differences.measure`.
        """
        by_rms = self.limits is not None
        result = judge(found, math.inf if by_rms else self.atol.get(found.output, 0.0))
        if result.problem is not None:
            return result
        if found.exact and self.turned:
            passed = found.squared <= max(1.0, self.turned * found.count)
            return dataclasses.replace(result, passed=passed)
        if self.limits is None:
            return result
        limit = self.limits.get(found.output, math.inf)
        # In float32 it is the same however the parts were added up.
        error = float(np.float32(math.sqrt(found.squared / found.count)))
        used = error / limit if limit else math.inf if error else 0.0
        return dataclasses.replace(result, passed=error <= limit, atol=limit, used=used, rms=error)

    def judge_together(self, found: Sequence[Measurement]) -> list[OutputComparison]:
        """Several measurements of an output, in eight bits with one verdict.

        One sample alone may be far off, in a file of use.

        Args:
            found: as for `judge`.
        """
        results = [self.judge(measured) for measured in found]
        if self.limits is None:
            return results
        whole = self.judge(functools.reduce(merged, found))
        told: dict[str, Any] = {"passed": whole.passed, "rms": whole.rms}
        if whole.rms is not None:
            told["used"] = whole.used
        return [
            r if r.problem or whole.problem else dataclasses.replace(r, **told) for r in results
        ]

    def failed(
        self, expected: Arrays, actual: Arrays, rows: Sequence[int] | None = None
    ) -> OutputComparison | None:
        """The first output that fails, or None; `rows` are the numbers of the samples."""
        results = map(self.judge, measure(expected, actual, self.rtol, rows))
        return next((result for result in results if not result), None)


def default_tolerance(
    precision: str, layers: int, timesteps: int, scales: Mapping[str, float]
) -> Tolerance:
    """How far off outputs may be, unless the user says it.

    Args:
        precision: as for `default_share`.
        layers: as for `default_share`.
        timesteps: as for `default_share`.
        scales: the largest |value| of every output; 0 is taken for 1.
    """
    share = default_share(precision, layers, timesteps)
    return Tolerance(TOLERANCES[precision], {n: share * (x or 1.0) for n, x in scales.items()})


def default_share(precision: str, layers: int, timesteps: int) -> float:
    """The default tolerance, as a share of each value and of an output's largest.

    ::

        share = TOLERANCES[precision] max(1, layers sqrt(timesteps) / 10)

    for float32 and float64. Half precision and 8-bit weights are off by their own rounding, which
    is far larger than what adds up on the way.

    Args:
        precision: a key of `TOLERANCES`.
        layers: number of layers with weights that values pass through, one after the other.
        timesteps: number of timesteps that a recurrent layer runs; 1 without one.

    Example:
    >>> default_share("float32", layers=4, timesteps=100)
    4e-05
    """
    share = TOLERANCES[precision]
    if precision in ("float32", "float64"):
        share *= max(1.0, layers * math.sqrt(timesteps) / REACH)
    return share


def coarsest(precisions: Iterable[str]) -> str:
    """The precision in `TOLERANCES` that limits values which pass through all of these.

    Args:
        precisions: dtype names, or "int8" for quantized weights; others are ignored.
    """
    present = set(precisions)
    return next((name for name in TOLERANCES if name in present), "float64")
