"""Define the property "repeat": a repeated call gives equal outputs."""

from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult


class Repeat(Property):
    """Test whether a call gives equal outputs again after a call with other inputs."""

    name = "repeat"
    meaning = "a repeated call gives other outputs"
    advice = "Find the layer that keeps state between calls, and build it with stateful=False."

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Run the last test input again, after another test input, and compare both outputs."""
        cases = subject.plan.expected.cases
        other, case, before = cases[0], cases[-1], subject.outputs[len(cases) - 1]
        subject.run(other.inputs)
        after, between = subject.run(case.inputs), f"after a call with {other.name}"
        pairs = [Pair(before, after, f"{case.name}: {between}, ", case.rows)]
        detail = f"{case.name}: a repeated call, {between}, gives equal outputs"
        return self.compare(pairs, detail, tolerance.calls)
