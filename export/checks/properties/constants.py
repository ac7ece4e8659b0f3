"""Define the property "constants": a quantized file has the model's constants, rounded."""

from collections.abc import Sequence

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import QUANTIZED, Tolerance
from keras_norm.export.formats.artifact_format import ConstantDifference
from keras_norm.export.formats.format_registry import format_of
from keras_norm.export.results.artifact_result import PropertyResult

# A constant of the checked file may differ from the constant of a new export by at most 2 times the
# sum of the rounding errors of both files. Correct constants differed by at most 0.9 times this
# sum, and constants with a wrong scale by more than 10 times this sum.
ROUNDING_ERRORS = 2.0
# To compare constants, the check exports the model again and gives the exporter the first SAMPLES
# samples of the data. If the time dimension is dynamic, each sample is cut to TIMESTEPS timesteps.
SAMPLES, TIMESTEPS = 32, 64


class Constants(Property):
    """Test whether a quantized file has the constants of a new export, except for rounding.

    The error of a quantized file hides a wrong constant: the outputs of a file with a kernel
    scaled by 0.8 may have a smaller error than the outputs of a right file. Constants of a right
    file differ by rounding only.
    """

    name = "constants"
    meaning = "the file was made from other weights, or was changed"
    advice = (
        "Export the model again: the file's constants are not the rounded constants of this model."
    )
    explains_outputs = True

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the artifact is a quantized file in a runtime that is not optional."""
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
        """Return "pass" if rounding explains the differences of all constants, else "fail"."""
        wrong = [c for c in found if c.difference > ROUNDING_ERRORS * c.rounding]
        if not wrong:
            return self.passed(
                f"{len(found)} constants equal the constants of a new export, except for rounding"
            )
        worst = max(wrong, key=lambda c: c.difference / (c.rounding or 1e-30))
        more = f", as do {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return self.failed(
            f"constant {worst.name!r} of {worst.layers} differs from a new export of the model by "
            f"{worst.difference:.2g}{more}, but rounding explains only {worst.rounding:.2g}"
        )
