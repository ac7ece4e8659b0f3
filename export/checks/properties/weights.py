"""Define the property "weights": inference changes no variable."""

from collections.abc import Mapping

from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult

# Keras' own recurrent layers draw dropout masks in inference mode too, but do not use the masks.
# Drawing a mask changes the variable of the random seed, but no output.
SEED_VARIABLE = "seed_generator_state"


class Weights(Property):
    """Test whether inference changes a variable of the Keras model or of an exported file.

    The check cannot read the variables of every file. It therefore repeats the first call of a file
    at the end: equal outputs show that no weight changed.
    """

    name = "weights"
    meaning = "inference changes weights"
    advice = "A layer assigns to a variable. Export the model in inference mode (training=False)."

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Fail if a call changed a variable, or if a repeat of the first call has other outputs."""
        case, first = subject.plan.expected.cases[0], subject.outputs[0]
        # The variables of the Keras model can be read. So it is enough to compare their values
        # before the first call and after the last call. The variables of an exported file may be
        # hidden. So repeat its first call: other outputs show that a variable changed.
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
