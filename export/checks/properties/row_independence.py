"""The property "row independence": a row's output depends on that row only."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_norm.export.checks.properties.property import Property, Tolerances, find_difference
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.input_cases import NeighborCase
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays

# (test inputs, outputs) of each call of the model. The first call runs the original batch. Each
# further call runs a row of this batch, alone or among other rows.
Calls = Sequence[tuple[NeighborCase, Arrays]]


class RowIndependence(Property[Calls]):
    """A row's output depends on that row only.

    Some rows run alone and in a batch with other rows. Their outputs must equal their outputs in
    the original batch.
    """

    name = "row independence"
    meaning = "the output of a row depends on the other rows of its batch"
    advice = "Export in inference mode (training=False): batch statistics mix rows."

    def measure(self, subject: Subject) -> Calls:
        """Run the original batch, and some of its rows alone and among other rows."""
        return [(call, subject.run(call.case.inputs)) for call in subject.plan.neighbor_cases]

    def judge(self, measured: Calls, tolerances: Tolerances) -> PropertyResult:  # noqa: D102
        (original, expected), *others = measured
        batch = len(original.case.rows)
        for output, value in expected.items():
            if np.ndim(value) == 0 or len(value) != batch:
                return self.failed(
                    f"output {output!r} has the shape {np.shape(value)}, but needs one row for "
                    f"each of the {batch} rows of the batch"
                )
        for call, actual in others:
            index = call.row if len(call.case.rows) > 1 else 0
            worst = find_difference(
                tolerances.calls, _select_row(expected, call.row), _select_row(actual, index)
            )
            if worst is not None:
                # Remove the sample number from the description of the difference. The number is
                # always 0, because the compared outputs have only one row.
                worst = dataclasses.replace(worst, where=worst.where[1:])
                return self.failed(f"row {call.row} {call.how}: {worst.description}")
        if not others:
            return self.not_applicable(
                "every batch has only one row, so no row can depend on another row"
            )
        rows = len({call.row for call, _ in others})
        return self.passed(f"{rows} of {batch} rows have equal outputs alone and among other rows")


def _select_row(outputs: Arrays, row: int) -> Arrays:
    return {name: value[row : row + 1] for name, value in outputs.items()}
