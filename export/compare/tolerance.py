"""Decide whether the differences between actual and expected outputs are within a tolerance."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_norm.export.compare.arrays import magnitude, without_common_nan
from keras_norm.export.compare.output_differences import measure, merge_measurements
from keras_norm.export.results.output_comparison import Measurement, OutputComparison
from keras_norm.typing import Arrays

# Default rtol for each precision, coarsest first. Each rtol is several times the rounding error of
# its dtype, because a recurrent layer adds up the rounding errors of all timesteps. The default
# atol is the rtol times the largest absolute value of an output. For deep models and long
# sequences, the default atol is larger. "int8" means a TFLite file with weights quantized to int8.
TOLERANCES = {
    "int8": 5e-2,
    "bfloat16": 5e-2,
    "float16": 1e-2,
    "float32": 1e-5,
    "float64": 1e-9,
}
# A file with one of these precisions is quantized if the precision of the Keras model is finer. The
# outputs of a quantized file approximate the model's outputs. The outputs of any other file
# equal the model's outputs, except for rounding.
QUANTIZED = ("int8", "bfloat16", "float16")
# A rounded weight can change an argmax. In a quantized file without float outputs, a quarter of an
# output's integers may therefore differ from the Keras model. In an output of fewer than four
# integers, one integer may differ.
INTEGER_SHARE = 0.25
# Rounding errors grow with n = layers * sqrt(timesteps). If n is above 10, the default atol for
# float32 and float64 is n / 10 times as large. For n = 10, float32 outputs differed from float64
# outputs by an eighth of the default atol (measured, docs/design/check.md).
REACH = 10.0


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Judge outputs by |actual - expected| <= atol + rtol |expected|, with an atol for each output.

    Attributes:
        rtol: relative tolerance.
        atol: absolute tolerance, by output.
        integer_share: the share of an output's integers that may differ; 0 if all have to be equal.
        limits: the largest allowed root mean square of the differences, by output. It replaces rtol
            and atol for files in 8 bits (`keras_norm.export.compare.quantization_tolerance`). An
            output without a limit only has to be finite. None for any other file.
        share: the default atol, as a share of an output's largest |value|.
    """

    rtol: float
    atol: Mapping[str, float]
    integer_share: float = 0.0
    limits: Mapping[str, float] | None = None
    share: float = 0.0

    @property
    def calls(self) -> "Tolerance":
        """The tolerance to compare two calls of one file that have equal inputs.

        Unlike a quantized file and its Keras model, two calls must have equal integers, and floats
        within rtol and atol.
        """
        return dataclasses.replace(self, integer_share=0.0, limits=None)

    def largest_allowed(self, expected: Arrays) -> dict[str, float]:
        """Return the largest allowed difference of any value, by output name."""
        return {n: self.atol[n] + self.rtol * magnitude(y) for n, y in expected.items()}

    def judge(self, found: Measurement) -> OutputComparison:
        """Decide whether the measured differences of one output are within this tolerance.

        Equal infinities pass. A NaN in either array fails. Integers and booleans must be equal,
        except for `integer_share`.

        Args:
            found: a result of `keras_norm.export.compare.output_differences.measure`.

        Example:
            >>> (found,) = measure({"y": np.zeros((2, 3))}, {"y": np.full((2, 3), 0.5)}, rtol=0.0)
            >>> result = Tolerance(0.0, {"y": 0.1}).judge(found)
            >>> result.passed, result.atol_needed, result.where
            (False, 0.5, (('sample', 0), ('unit', 0)))
        """
        problem = found.problem or _not_finite(found)
        atol = math.inf if self.limits is not None else self.atol.get(found.output, 0.0)
        atol, passed, used, rms = 0.0 if found.exact else atol, False, None, None
        if found.worst is not None and found.widest is not None:
            passed = found.worst.excess(found.rtol) <= atol
            used = max(element.used(found.rtol, atol) for element in (found.worst, found.widest))
            if found.exact and self.integer_share:
                passed = found.squared <= max(1.0, self.integer_share * found.count)
            elif self.limits is not None and problem is None:
                atol = self.limits.get(found.output, math.inf)
                # Round the root mean square to float32. In float64 its last digits depend on the
                # order in which batches are added.
                rms = float(np.float32(math.sqrt(found.squared / found.count)))
                passed, used = rms <= atol, rms / atol if atol else math.inf if rms else 0.0
        return OutputComparison(
            **vars(found) | {"problem": problem},
            passed=bool(problem is None and passed),
            atol=atol,
            used=used,
            rms=rms,
        )

    def judge_together(self, found: Sequence[Measurement]) -> list[OutputComparison]:
        """Decide whether one output is within this tolerance on each of several test inputs.

        With `limits` (8 bits), all results share one verdict about all measurements together. A
        single sample may differ by more than the limit, although the file is useful.

        Args:
            found: measurements of one output, each as for `judge`.
        """
        results = [self.judge(measured) for measured in found]
        if self.limits is None:
            return results
        whole = self.judge(functools.reduce(merge_measurements, found))
        if whole.problem:
            return results
        return [
            result
            if result.problem
            else dataclasses.replace(
                result,
                passed=whole.passed,
                rms=whole.rms,
                used=result.used if whole.rms is None else whole.used,
            )
            for result in results
        ]

    def compare(
        self, expected: Arrays, actual: Arrays, rows: Sequence[int] | None = None
    ) -> list[OutputComparison]:
        """Compare each actual output with the expected output, within this tolerance.

        NaN at the same position in both arrays is not a difference.

        Args:
            expected: arrays by output name.
            actual: arrays by output name.
            rows: the sample number of each row; None to count from 0.
        """
        wanted, received = without_common_nan(expected, actual)
        return [self.judge(found) for found in measure(wanted, received, self.rtol, rows)]

    def first_failure(
        self, expected: Arrays, actual: Arrays, rows: Sequence[int] | None = None
    ) -> OutputComparison | None:
        """Return the comparison of the first output that exceeds its tolerance, or None.

        The arguments are as for `compare`.
        """
        results = self.compare(expected, actual, rows)
        return next((result for result in results if not result), None)


def _not_finite(found: Measurement) -> str | None:
    if found.nan_expected:
        return f"NaN in {found.nan_expected} of {found.count} expected values"
    if found.nan_actual:
        return f"NaN in {found.nan_actual} of {found.count} actual values"
    if found.infinite:
        infinite = f"{found.infinite} of {found.count} values"
        return f"{infinite} are infinite in only one of the two outputs (expected and actual)"
    return None


def coarsest(precisions: Iterable[str]) -> str:
    """Return the coarsest of several precisions, such as "float16" of "float16" and "float32".

    Return "float64" if `TOLERANCES` has none of the precisions.

    Args:
        precisions: dtype names, or "int8" for quantized weights; unknown names are ignored.
    """
    present = set(precisions)
    return next((name for name in TOLERANCES if name in present), "float64")
