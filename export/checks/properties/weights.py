"""The property "weights": inference changes no variable."""

from collections.abc import Mapping

from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult

# Keras' own recurrent layers draw unused dropout masks at inference too. This changes the seed
# variable, but no output.
SEED_VARIABLE = "seed_generator_state"


class Weights(Property):
    """Inference changes no variable.

    A runtime may hide its variables. The first call is therefore repeated at the end of the check:
    equal outputs show that no weight changed.
    """

    name = "weights"
    meaning = "inference changes weights"
    advice = "Export in inference mode (training=False): a layer assigns to a variable."

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Fail if a variable changed in the check, or if the first call now has other outputs."""
        case, first = subject.plan.expected.cases[0], subject.outputs[0]
        # All variables of the Keras model are visible, so its first call need not be repeated.
        repeated = first if subject.is_keras_model else subject.run(case.inputs)
        before = subject.variables
        if changed := find_changes(before, subject.run.variable_digests()):
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            return self.failed(f"inference changed {changed[0]}{more}")
        prefix = "the outputs of the first call changed after later calls: "
        detail = "the first call, repeated at the end of the check, gives equal outputs"
        if before:
            detail = f"inference changed none of {len(before)} variables"
        return self.compare([Pair(first, repeated, prefix, case.rows)], detail, tolerance.calls)


def find_changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the variables whose value changed, except random seeds."""
    changed = (n for n, d in before.items() if now.get(n) != d and SEED_VARIABLE not in n)
    return tuple(name.split(": ")[1] for name in changed)
