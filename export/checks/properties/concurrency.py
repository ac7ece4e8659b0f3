"""The property "concurrency": calls from several threads give the same outputs as single calls."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays

# The concurrency test: number of threads, number of different test inputs, duration in seconds.
THREADS, INPUTS, SECONDS = 8, 4, 0.5


@runtime_checkable
class ConcurrentRunner(Protocol):
    """A loaded model that can be called from several threads at once, as in a server."""

    def run_at_once(
        self, cases: Sequence[Arrays], threads: int, seconds: float
    ) -> tuple[int, Sequence[Arrays], Sequence[Arrays]]:
        """Call the model from several threads at once; see `worker_protocol.Worker.run_at_once`."""


class Concurrency(Property):
    """Calls of one loaded model from several threads give the same outputs as single calls."""

    name = "concurrency"
    meaning = "calls from several threads at once give other outputs than single calls"
    advice = "Find the layer whose calls share a variable, and build it without that variable."

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return not subject.is_keras_model

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Call the file from several threads, and compare the outputs with single calls."""
        run, cases = subject.run, subject.plan.expected.cases
        if not isinstance(run, ConcurrentRunner):
            return self.not_applicable(
                "concurrent calls were not tested, because the check runs one call at a time in "
                "this runtime"
            )
        indices = sorted({*np.linspace(0, len(cases) - 1, INPUTS).astype(int).tolist()})
        inputs = [cases[k].inputs for k in indices]
        count, *bounds = run.run_at_once(inputs, threads=THREADS, seconds=SECONDS)
        threads = f"calls from {THREADS} threads"
        pairs = (
            Pair(subject.outputs[k], actual, f"{threads}, {cases[k].name}: ", cases[k].rows)
            for bound in bounds
            for k, actual in zip(indices, bound, strict=True)
        )
        detail = f"{count} calls from {THREADS} threads give the same outputs as single calls"
        return self.compare(pairs, detail, tolerance.calls)
