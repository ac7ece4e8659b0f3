"""The property "constants": a quantized file has the constants of the model, rounded."""

from collections.abc import Sequence

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import QUANTIZED, Tolerance
from keras_norm.export.formats.artifact_format import ConstantDifference
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.results.artifact_result import PropertyResult

# Largest allowed difference from a new export, relative to the sum of both rounding errors.
# Correct constants reach 0.9 in measurements; a constant with a wrong scale exceeds 10.
ROUNDING_ERRORS = 2.0
# Number of samples for a new export, and of their timesteps where the time dimension is dynamic.
SAMPLES, TIMESTEPS = 32, 64


class Constants(Property):
    """A quantized file has the constants of a new export of the Keras model, except for rounding.

    The error of a quantized file hides a wrong constant: the outputs of a file with a kernel
    scaled by 0.8 may have a smaller error than the outputs of a right file. Constants of a right
    file differ by rounding only.
    """

    name = "constants"
    meaning = "the file was made from other weights, or was changed"
    advice = "Export the model again: the constants are not the constants of this model, rounded."
    explains_outputs = True

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the artifact is a quantized file in the runtime of its format."""
        source = subject.source
        return bool(source.path) and not source.optional and source.precision in QUANTIZED

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Export the model again, and compare the constants of both files."""
        path = subject.run.path
        assert path is not None
        known = format_of(path)
        if known is None or known.compare_constants is None:
            return self.not_applicable("the exporter writes no quantized files of this format")
        samples = subject.plan.samples
        few = {name: array[:SAMPLES] for name, array in samples.arrays.items()}
        for name in samples.sequences:
            few[name] = few[name][:, :TIMESTEPS]
        found = known.compare_constants(subject.plan.model, path, few)
        return self.not_applicable(found) if isinstance(found, str) else self.judge(found)

    def judge(self, found: Sequence[ConstantDifference]) -> PropertyResult:
        """Return the result for the differences of all constants."""
        wrong = [c for c in found if c.difference > ROUNDING_ERRORS * c.rounding]
        if not wrong:
            return self.passed(
                f"{len(found)} constants equal the constants of a new export within rounding"
            )
        worst = max(wrong, key=lambda c: c.difference / (c.rounding or 1e-30))
        more = f", as do {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return self.failed(
            f"constant {worst.name!r} of {worst.layers} differs from a new export by "
            f"{worst.difference:.2g}{more}; rounding explains {worst.rounding:.2g}"
        )
