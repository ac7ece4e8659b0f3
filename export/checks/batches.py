"""Run the reference model on a part of the data, in batches."""

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
    """One batch, with the outputs of the reference model.

    Attributes:
        rows: slice of the part's samples. The batch may have further rows that only fill it up.
        case: the inputs.
        answer: the outputs of the reference model.
        labels: labels of all samples of the part, by output name.
    """

    rows: slice
    case: Case
    answer: Arrays
    labels: Arrays

    @property
    def count(self) -> int:
        """Number of rows, without the rows that only fill up the batch."""
        return int(self.rows.stop - self.rows.start)

    @property
    def with_rows(self) -> Arrays:
        """The outputs that have one row for each row of the batch."""
        size = len(self.case.rows)
        return {n: y for n, y in self.answer.items() if np.shape(y)[:1] == (size,)}

    @property
    def given(self) -> Arrays:
        """The labels of the samples in this batch."""
        return {name: y[self.rows] for name, y in self.labels.items()}

    def counted(self, outputs: Arrays) -> Arrays:
        """Remove the rows that only fill up the batch from some outputs."""
        return {name: y[: self.count] for name, y in outputs.items()}


def batches(part: Part, run: Run, size: int) -> Iterator[Batch]:
    """Run the reference model on a part of the data and yield its batches.

    Args:
        part: the part of the data.
        run: the reference model.
        size: largest batch size.

    Raises:
        ValueError: the labels do not fit the model's outputs.
    """
    labels: Arrays = {}
    for rows, case in part.samples.batches(size):
        batch = Batch(rows, case, run(case.inputs), labels)
        if part.labels is not None and not labels:
            labels = read_labels(part.labels, batch.with_rows, part.samples.count)
            batch = dataclasses.replace(batch, labels=labels)
        yield batch
