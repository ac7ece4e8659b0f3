"""A property in a file of its own: docs/design/extend.md has the same class."""

from keras_norm.export.checks.properties.property import NotApplicable, Property


class NonNegative(Property):
    """No value of the output "y" is negative."""

    name = "non-negative"
    meaning = "an output is negative"
    advice = "End the model with a ReLU."
    explains_outputs = True

    def measure(self, subject):
        """Run the first test input, and return the smallest output."""
        outputs = subject.run(subject.plan.expected.cases[0].inputs)
        if "y" not in outputs:
            return NotApplicable("there is no output 'y'")
        return float(outputs["y"].min())

    def judge(self, measured, tolerances):
        """Fail if the smallest output is below 0 by more than the tolerance."""
        if measured < -tolerances.calls.atol["y"]:
            return self.failed(f"output 'y' is {measured:.3g}")
        return self.passed(f"output 'y' is {measured:.3g} or larger")

    def make_notes(self, model, results):
        """Name the files for which the property was not tested."""
        tested = [result.property(self.name) for result in results]
        untested = [known for known in tested if known and known.status == "not applicable"]
        return (f"{self.name}: not tested on {len(untested)} artifacts",) if untested else ()
