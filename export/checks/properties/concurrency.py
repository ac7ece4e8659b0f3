"""The property "concurrency": calls from several threads give the outputs of single calls."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays

# The concurrency test: number of threads, number of different test inputs, duration in seconds.
THREADS, INPUTS, SECONDS = 8, 4, 0.5


@runtime_checkable
class ConcurrentRunner(Protocol):
    """A runner whose loaded model can be called from several threads at once, as in a server."""

    def run_at_once(
        self, cases: Sequence[Arrays], threads: int, seconds: float
    ) -> tuple[int, Sequence[Arrays], Sequence[Arrays]]:
        """Call the model from several threads at once, and return the range of the outputs.

        Returns:
            (number of calls, elementwise minimum of the outputs for each of `cases`, elementwise
            maximum of the outputs for each of `cases`).
        """


@dataclasses.dataclass(frozen=True)
class ConcurrentCalls:
    """The outputs of concurrent calls.

    Attributes:
        cases: the test inputs, of several shapes.
        expected: the outputs of a single call with each of `cases`.
        count: number of concurrent calls.
        lowest: elementwise minimum of the outputs for each of `cases`.
        highest: elementwise maximum of the outputs for each of `cases`.
    """

    cases: Sequence[Case]
    expected: Sequence[Arrays]
    count: int
    lowest: Sequence[Arrays]
    highest: Sequence[Arrays]


class Concurrency(Property[ConcurrentCalls]):
    """Concurrent calls of one loaded model give the outputs of single calls."""

    name = "concurrency"
    meaning = "calls from several threads at once give other outputs than single calls"
    advice = "Find the layer whose calls share a variable, and build it without that variable."

    def applies_to(self, subject: Subject) -> bool:  # noqa: D102
        return not subject.is_keras_model

    def measure(self, subject: Subject) -> ConcurrentCalls | PropertyResult:
        """Call the model from several threads, with some of the test inputs."""
        run, cases = subject.run, subject.plan.expected.cases
        if not isinstance(run, ConcurrentRunner):
            return self.not_applicable(
                "concurrent calls were not tested, because the check runs one call at a time in "
                "this runtime"
            )
        indices = sorted({*np.linspace(0, len(cases) - 1, INPUTS).astype(int).tolist()})
        inputs = [cases[k].inputs for k in indices]
        count, lowest, highest = run.run_at_once(inputs, threads=THREADS, seconds=SECONDS)
        expected = [subject.outputs[k] for k in indices]
        return ConcurrentCalls([cases[k] for k in indices], expected, count, lowest, highest)

    def judge(self, measured: ConcurrentCalls, tolerance: Tolerance) -> PropertyResult:  # noqa: D102
        for bound in (measured.lowest, measured.highest):
            for case, expected, actual in zip(
                measured.cases, measured.expected, bound, strict=True
            ):
                worst = tolerance.calls.first_failure(expected, actual, case.rows)
                if worst is not None:
                    return self.failed(
                        f"calls from {THREADS} threads, {case.name}: {worst.description}"
                    )
        return self.passed(
            f"{measured.count} calls from {THREADS} threads give the outputs of single calls"
        )
