"""A part of the data in batches, each with what the model gives that others are compared with."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from keras_norm.export.checks.data_reader import Part
from keras_norm.export.compare.element_differences import Arrays
from keras_norm.export.compare.input_cases import Case
from keras_norm.export.compare.metrics import read_labels
from keras_norm.export.runtimes.runner import Run


@dataclasses.dataclass(frozen=True)
class Batch:
    """A call, and what comes of it.

    Attributes:
        rows: which of the part's samples it is for; what is beyond them only fills it.
        case: the call.
        answer: what the model gives.
        labels: of all samples of the part, by output name.
    """

    rows: slice
    case: Case
    answer: Arrays
    labels: Arrays

    @property
    def count(self) -> int:
        """How many of its rows are to be counted."""
        return int(self.rows.stop - self.rows.start)

    @property
    def with_rows(self) -> Arrays:
        """The outputs that have a row for each of the batch's."""
        size = len(self.case.rows)
        return {n: y for n, y in self.answer.items() if np.shape(y)[:1] == (size,)}

    @property
    def given(self) -> Arrays:
        """The labels of its rows."""
        return {name: y[self.rows] for name, y in self.labels.items()}

    def counted(self, outputs: Arrays) -> Arrays:
        """The rows of some outputs that are to be counted."""
        return {name: y[: self.count] for name, y in outputs.items()}


def batches(part: Part, run: Run, size: int) -> Iterator[Batch]:
    """Run a part.

    Args:
        part: of the data.
        run: the model.
        size: most samples of a call.

    Raises:
        ValueError: labels that do not fit the model's outputs.
    """
    labels: Arrays = {}
    for rows, case in part.samples.batches(size):
        batch = Batch(rows, case, run(case.inputs), labels)
        if part.labels is not None and not labels:
            labels = read_labels(part.labels, batch.with_rows, part.samples.count)
            batch = dataclasses.replace(batch, labels=labels)
        yield batch
