"""The property "repeat": a repeated call gives equal outputs."""

from keras_norm.export.checks.properties.equal_outputs import EqualOutputs, Pair, Pairs
from keras_norm.export.checks.subject import Subject


class Repeat(EqualOutputs):
    """A call gives equal outputs when it is repeated after a call with other inputs."""

    name = "repeat"
    meaning = "a repeated call gives other outputs"
    advice = "Build the layer that keeps state between calls with stateful=False."

    def measure(self, subject: Subject) -> Pairs:
        """Run the last test input again, after another test input, and return both outputs."""
        cases = subject.plan.expected.cases
        other, case, before = cases[0], cases[-1], subject.outputs[len(cases) - 1]
        subject.run(other.inputs)
        after, between = subject.run(case.inputs), f"after a call with {other.name}"
        return [Pair(before, after, f"{case.name}: {between}, ", case.rows)], (
            f"{case.name}: a repeated call, {between}, gives equal outputs"
        )
