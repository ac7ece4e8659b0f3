"""Define the property "concurrency": calls from several threads give the right outputs."""

import numpy as np

from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult

# 8 threads call the model with 4 different test inputs, for half a second.
THREADS, INPUTS, SECONDS = 8, 4, 0.5


class Concurrency(Property):
    """Test whether calls from several threads at once give the same outputs as single calls."""

    name = "concurrency"
    meaning = "calls from several threads at once give other outputs than single calls"
    advice = "Find the layer whose calls share a variable, and build it without that variable."

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return not subject.is_keras_model

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Call the file from several threads, and compare the outputs with single calls."""
        cases = subject.plan.expected.cases
        indices = sorted({*np.linspace(0, len(cases) - 1, INPUTS).astype(int).tolist()})
        inputs = [cases[k].inputs for k in indices]
        found = subject.run.run_at_once(inputs, threads=THREADS, seconds=SECONDS)
        if found is None:
            return self.not_applicable(
                "concurrent calls were not tested, because the check runs one call at a time in "
                "this runtime"
            )
        count, *bounds = found
        threads = f"calls from {THREADS} threads"
        pairs = (
            Pair(subject.outputs[k], actual, f"{threads}, {cases[k].name}: ", cases[k].rows)
            for bound in bounds
            for k, actual in zip(indices, bound, strict=True)
        )
        detail = f"{count} calls from {THREADS} threads give the same outputs as single calls"
        return self.compare(pairs, detail, tolerance.calls)
