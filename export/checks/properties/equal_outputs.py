"""Base class of the properties that hold if recorded outputs are equal, such as "repeat"."""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.typing import Arrays


@dataclasses.dataclass(frozen=True)
class Pair:
    """The outputs of a call, and the outputs that they have to equal.

    Attributes:
        expected: arrays by output name.
        actual: arrays by output name.
        prefix: the beginning of the text about a difference, such as "batch 7, length 6: ".
        rows: sample number of each row; None to count from 0.
    """

    expected: Arrays
    actual: Arrays
    prefix: str = ""
    rows: Sequence[int] | None = None


# Pairs of outputs, and the detail of the result if the outputs of every pair are equal.
Pairs: TypeAlias = tuple[Sequence[Pair], str]


class EqualOutputs(Property[Pairs]):
    """A property that holds if recorded outputs are equal within the tolerance.

    Attributes:
        with_model: whether `Pair.expected` has outputs of the Keras model, and `Pair.actual`
            outputs of a file. If not, both are outputs of one subject.
    """

    with_model: bool = False

    def judge(self, measured: Pairs, tolerance: Tolerance) -> PropertyResult:
        """Compare the outputs of every pair; the first pair that differs is reported."""
        pairs, detail = measured
        limits = tolerance if self.with_model else tolerance.calls
        for pair in pairs:
            worst = limits.first_failure(pair.expected, pair.actual, pair.rows)
            if worst is not None:
                return self.unequal(pair.prefix + self.describe(worst))
        return self.passed(detail)

    def describe(self, worst: OutputComparison) -> str:
        """Describe the first output that differs."""
        return worst.description

    def unequal(self, detail: str) -> PropertyResult:
        """Return the result if the outputs of a pair differ."""
        return self.failed(detail)
