"""Define the property "input range": a file that computes in integers does not clip the data."""

import pathlib

import numpy as np

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.results.artifact_result import PropertyResult

# The check reports clipping if the file clips more than 1% of an input's values. A smaller share is
# normal: a few values of new data are outside the range of the samples for the exporter.
CLIPPED = 0.01


class InputRange(Property):
    """Test whether a file that computes in integers clips at most 1% of the values of an input."""

    name = "input range"
    meaning = "the file clips inputs to the range of the samples that were given to the exporter"
    advice = "Export the model again, with samples= like these data."

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the artifact rounds inputs to integers."""
        source = subject.source
        return bool(source.path) and not source.optional and bool(_ranges(subject))

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Compute the share of each input's values in the data that the file clips."""
        found = []
        for name, (low, high) in _ranges(subject).items():
            values = subject.plan.samples.arrays[name]
            share = float(np.mean((values < low) | (values > high)))
            found.append(
                (
                    share,
                    f"{share:.1%} of the values of input {name!r} are outside the range of the "
                    f"file, {low:.3g} to {high:.3g}",
                )
            )
        worst, detail = max(found, key=lambda pair: pair[0])
        return self.differs(detail, self.advice) if worst > CLIPPED else self.passed(detail)


def _ranges(subject: Subject) -> dict[str, tuple[float, float]]:
    """Return the lowest and highest value that the file can represent, for each rounded input."""
    path = pathlib.Path(subject.source.path)
    known = format_of(path)
    found = {} if known is None else known.input_ranges(path)
    return {name: ends for name, ends in found.items() if name in subject.plan.samples.arrays}
