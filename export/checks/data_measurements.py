"""Measure the outputs of the Keras model and of exported files on all data, batch by batch."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from keras_norm.export.checks.data_reader import Part
from keras_norm.export.compare.arrays import kind_of, magnitude, where_nan
from keras_norm.export.compare.labels import read_labels
from keras_norm.export.compare.output_differences import add_profiles, measure, merge_measurements
from keras_norm.export.compare.prediction_changes import PredictionChanges
from keras_norm.export.compare.quantization_tolerance import Spread, add_spreads, spreads
from keras_norm.export.compare.samples import Case
from keras_norm.export.results.artifact_result import Metric
from keras_norm.export.results.output_comparison import DifferenceProfile, Measurement
from keras_norm.export.runtimes.runner import Run
from keras_norm.typing import Array, Arrays


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch of the data, with the outputs of the Keras model or of a model's old version.

    The reference model is the Keras model in a check, and the old version in a comparison of
    versions.

    Attributes:
        rows: the batch's samples, as a slice of the part's samples. Further rows of the batch pad
            it to the static batch size.
        case: the inputs, with the outputs of the reference model.
        part_labels: labels of all samples of the part, by output name.
    """

    rows: slice
    case: Case
    part_labels: Arrays

    @property
    def count(self) -> int:
        """Number of samples in the batch; rows added to reach a static batch size do not count."""
        return int(self.rows.stop - self.rows.start)

    @property
    def row_outputs(self) -> Arrays:
        """The expected outputs whose first axis is the batch, by output name."""
        size = len(self.case.rows)
        return {n: y for n, y in self.case.outputs.items() if np.shape(y)[:1] == (size,)}

    @property
    def labels(self) -> Arrays:
        """The labels of the samples in this batch, by output name."""
        return {name: y[self.rows] for name, y in self.part_labels.items()}

    def cut(self, outputs: Arrays) -> Arrays:
        """Remove the output rows that were added to reach the model's static batch size."""
        return {name: y[: self.count] for name, y in outputs.items()}


def run_batches(part: Part, run: Run, size: int) -> Iterator[Batch]:
    """Run a model on a part of the data, and yield each batch with the model's outputs.

    `size` is the largest batch size. Raises ValueError if the labels do not fit the outputs.
    """
    labels: Arrays = {}
    for rows, case in part.samples.batches(size):
        batch = Batch(rows, dataclasses.replace(case, outputs=run(case.inputs)), labels)
        if part.labels is not None and not labels:
            labels = read_labels(part.labels, batch.row_outputs)
            batch = dataclasses.replace(batch, part_labels=labels)
        yield batch


@dataclasses.dataclass
class ArtifactMeasurements:
    """Differences between the outputs of one exported file and the Keras model, on all data.

    Attributes:
        outputs: differences between each output and the output of the Keras model, by name.
        profiles: distribution of the differences of each output, by name.
        changes: the predictions that differ from the Keras model's predictions, by output name.
        worst: the batch with the largest difference, with the outputs of the Keras model.
        largest: the largest difference, as a share of the output's largest value; -1 without one.
    """

    outputs: dict[str, Measurement] = dataclasses.field(default_factory=dict)
    profiles: dict[str, DifferenceProfile | None] = dataclasses.field(default_factory=dict)
    changes: dict[str, PredictionChanges] = dataclasses.field(default_factory=dict)
    worst: Case | None = None
    largest: float = -1.0

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metric, such as the accuracy, of each output that has labels."""
        found = (changes.result().metrics for changes in self.changes.values())
        return tuple(pair[1] for pair in found if pair is not None)

    def add(self, batch: Batch, actual: Arrays, rtol: float, source: str) -> None:
        """Add the differences between the file's outputs and the Keras model's for one batch.

        Args:
            batch: the batch, with the outputs of the Keras model.
            actual: the outputs of the file.
            rtol: relative tolerance.
            source: name of the data file, as for `Part`.
        """
        measurements = measure(batch.case.outputs, actual, rtol, batch.case.rows, source)
        for new in measurements:
            old = self.outputs.get(new.output)
            self.outputs[new.output] = new if old is None else merge_measurements(old, new)
        add_profiles(self.profiles, batch.case.outputs, actual)
        # Divide each difference by the largest |output|: 0.1 is small for an output of 1000.
        excesses = (m.worst.excess(m.rtol) / (m.scale or 1.0) for m in measurements if m.worst)
        largest = max(excesses, default=-1.0)
        if self.worst is None or largest > self.largest:
            self.largest, self.worst = largest, batch.case
        wrong = {m.output for m in measurements if m.problem}
        add_changes(self.changes, batch, {n: y for n, y in actual.items() if n not in wrong})


@dataclasses.dataclass
class DataMeasurements:
    """Measurements of the Keras model's outputs on all data: largest values, NaN, predictions.

    Attributes:
        samples: number of samples.
        timesteps: largest number of timesteps of a recurrent layer; 1 without a recurrent layer.
        scales: largest absolute value of each output, by name.
        first_rows: the first row of each output, (1, ...) by name.
        varying: names of the outputs that are not equal for all samples.
        spreads: sums for the variance of each output.
        nan: (number of values, number of NaN values) of each output, by name.
        keras: the predictions of the Keras model, and its metrics.
    """

    samples: int = 0
    timesteps: int = 0
    scales: dict[str, float] = dataclasses.field(default_factory=dict)
    first_rows: dict[str, Array] = dataclasses.field(default_factory=dict)
    varying: set[str] = dataclasses.field(default_factory=set)
    spreads: tuple[Spread, ...] = ()
    nan: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    keras: ArtifactMeasurements = dataclasses.field(default_factory=ArtifactMeasurements)

    def add(self, batch: Batch, timesteps: int) -> None:
        """Add the Keras model's outputs for one batch of sequences of `timesteps` timesteps."""
        own = batch.cut(batch.row_outputs)
        self.samples += batch.count
        self.timesteps = max(self.timesteps, timesteps)
        for name, y in batch.case.outputs.items():
            self.scales[name] = max(magnitude(y), self.scales.get(name, 0.0))
            count, nan = self.nan.get(name, (0, 0))
            self.nan[name] = count + y.size, nan + int(where_nan(y).sum())
        for name, y in own.items():
            first = self.first_rows.setdefault(name, y[:1])
            if y.shape[1:] != first.shape[1:] or (y != first).any():
                self.varying.add(name)
        self.spreads = add_spreads([*self.spreads, *spreads(own)])
        add_changes(self.keras.changes, batch, {name: own[name] for name in batch.labels})


def add_changes(
    changes: dict[str, PredictionChanges],
    batch: Batch,
    outputs: Arrays,
    rows: Sequence[int] = (),
    source: str = "",
) -> None:
    """Count changed predictions in a batch, compared with the Keras model or the old version.

    The function adds to `changes`, by output name. It ignores the names in `outputs` that are not
    in `batch.row_outputs`. `rows` and `source` are as for `PredictionChanges.add`.
    """
    for name, before in batch.cut(batch.row_outputs).items():
        if name in outputs and before.size and kind_of(before) != "text":
            labels, after = batch.labels.get(name), outputs[name][: batch.count]
            change = changes.setdefault(name, PredictionChanges(name))
            change.add(before, after, labels, rows, source)
