"""The property "input range": a file in integers does not clip the inputs of the data."""

import dataclasses
import pathlib

import numpy as np

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.results.artifact_result import PropertyResult

# Share of an input's values above which clipping is reported. Data have a few values beyond the
# range of the samples from which the scales come.
CLIPPED = 0.01


@dataclasses.dataclass(frozen=True)
class ClippedInput:
    """The range of an input in a file, and the values of the data outside it.

    Attributes:
        name: name of the input.
        low: smallest value that the file represents.
        high: largest value that the file represents.
        share: share of the values of the data outside the range.
    """

    name: str
    low: float
    high: float
    share: float


class InputRange(Property[list[ClippedInput]]):
    """A file that computes in integers represents nearly all input values of the data."""

    name = "input range"
    meaning = "the file clips inputs to the range of the samples that were given to the exporter"
    advice = "Export the model again, with samples= like these data."

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the artifact rounds inputs to integers."""
        source = subject.source
        return bool(source.path) and not source.optional and bool(_ranges(subject))

    def measure(self, subject: Subject) -> list[ClippedInput]:
        """Count the values of the data outside the range of each input."""
        found = []
        for name, (low, high) in _ranges(subject).items():
            values = subject.plan.samples.arrays[name]
            outside = (values < low) | (values > high)
            found.append(ClippedInput(name, low, high, float(np.mean(outside))))
        return found

    def judge(self, measured: list[ClippedInput], tolerance: Tolerance) -> PropertyResult:  # noqa: D102
        worst = max(measured, key=lambda clipped: clipped.share)
        detail = (
            f"{worst.share:.1%} of the values of input {worst.name!r} are outside the range of the "
            f"file, {worst.low:.3g} to {worst.high:.3g}"
        )
        clipped = worst.share > CLIPPED
        return self.differs(detail, self.advice) if clipped else self.passed(detail)


def _ranges(subject: Subject) -> dict[str, tuple[float, float]]:
    """Return the range of each input of the model that the file rounds to integers."""
    path = pathlib.Path(subject.source.path)
    known = format_of(path)
    found = {} if known is None else known.input_ranges(path)
    return {name: ends for name, ends in found.items() if name in subject.plan.samples.arrays}
