"""The property "weights": inference changes no variable."""

import dataclasses
from collections.abc import Mapping

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays

# Keras' own recurrent layers draw unused dropout masks at inference too. This changes the seed
# variable, but no output.
SEED_VARIABLE = "seed_generator_state"


@dataclasses.dataclass(frozen=True)
class Effects:
    """The variables that inference changed, and the outputs of a call and of its repetition.

    Attributes:
        variables: number of visible variables.
        changed: names of the variables that changed.
        case: the inputs of the first call.
        before: the outputs of the first call.
        after: the outputs of the first call, repeated at the end of the check. Empty for the Keras
            model, whose variables are all visible.
    """

    variables: int
    changed: tuple[str, ...]
    case: Case
    before: Arrays
    after: Arrays


class Weights(Property[Effects]):
    """Inference changes no variable.

    A runtime may hide its variables. The first call is therefore repeated at the end of the check:
    equal outputs show that no weight changed.
    """

    name = "weights"
    meaning = "inference changes weights"
    advice = "Export in inference mode (training=False): a layer assigns to a variable."

    def measure(self, subject: Subject) -> Effects:
        """Find variables that changed since the first call of the check, and repeat this call."""
        case = subject.plan.expected.cases[0]
        before, after = {}, {}
        if not subject.is_keras_model:
            before, after = subject.first, subject.run(case.inputs)
        changed = find_changes(subject.variables, subject.run.variable_digests())
        return Effects(len(subject.variables), changed, case, before, after)

    def judge(self, measured: Effects, tolerance: Tolerance) -> PropertyResult:  # noqa: D102
        if measured.changed:
            count = len(measured.changed) - 1
            more = f" and {count} more" if count else ""
            return self.failed(f"inference changed {measured.changed[0]}{more}")
        rows = measured.case.rows
        worst = tolerance.calls.first_failure(measured.before, measured.after, rows)
        if worst is not None:
            return self.failed(
                f"the outputs of the first call changed after later calls: {worst.description}"
            )
        if measured.variables:
            return self.passed(f"inference changed none of {measured.variables} variables")
        return self.passed("the first call, repeated at the end of the check, gives equal outputs")


def find_changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables whose value changed, except random seeds."""
    changed = (n for n, d in before.items() if now.get(n) != d and SEED_VARIABLE not in n)
    return tuple(name.split(": ")[1] for name in changed)
