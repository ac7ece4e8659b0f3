"""The property "repeat": a repeated call gives equal outputs."""

import dataclasses

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays


@dataclasses.dataclass(frozen=True)
class RepeatedCall:
    """The outputs of a call, and of its repetition after another call.

    Attributes:
        case: the inputs of the repeated call.
        other: the inputs of the call in between, of another shape if the model accepts one.
        before: the outputs of the first call.
        after: the outputs of the repeated call.
    """

    case: Case
    other: Case
    before: Arrays
    after: Arrays


class Repeat(Property[RepeatedCall]):
    """A call gives equal outputs when it is repeated after a call with other inputs."""

    name = "repeat"
    meaning = "a repeated call gives other outputs"
    advice = "Build the layer that keeps state between calls with stateful=False."

    def measure(self, subject: Subject) -> RepeatedCall:
        """Run the last test input again, after another test input, and return both outputs."""
        cases = subject.plan.expected.cases
        other, case, before = cases[0], cases[-1], subject.outputs[len(cases) - 1]
        subject.run(other.inputs)
        return RepeatedCall(case, other, before, subject.run(case.inputs))

    def judge(self, measured: RepeatedCall, tolerance: Tolerance) -> PropertyResult:  # noqa: D102
        case, other = measured.case, measured.other
        worst = tolerance.calls.first_failure(measured.before, measured.after, case.rows)
        if worst is not None:
            return self.failed(f"{case.name}: after a call with {other.name}, {worst.description}")
        return self.passed(
            f"{case.name}: a repeated call, after a call with {other.name}, gives equal outputs"
        )
