"""Define the property "no NaN": no output of the Keras model is NaN."""

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.arrays import where_nan
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult


class NoNaN(Property):
    """Test whether the Keras model has outputs that are NaN: NaN cannot be compared."""

    name = "no NaN"
    meaning = "outputs of the Keras model are NaN, and NaN cannot be compared"
    advice = "Give data for which no output is NaN, or correct the layer that computes NaN."
    explains_outputs = True

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return subject.is_keras_model

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Fail if an output of the Keras model is NaN, for the test inputs or in all data."""
        found = {}
        for name in subject.outputs[0]:
            outputs = [recorded[name] for recorded in subject.outputs]
            nan = sum(int(where_nan(output).sum()) for output in outputs)
            found[name] = (sum(output.size for output in outputs), nan)
        assert subject.data is not None
        found |= {name: counts for name, counts in subject.data.nan.items() if counts[1]}
        for output, (count, nan) in found.items():
            if nan == count:
                return self.failed(f"output {output!r} is NaN for every sample")
            if nan:
                return self.failed(f"output {output!r} is NaN in {nan} of {count} values")
        return self.passed("no output is NaN")
