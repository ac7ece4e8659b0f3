"""Run all data, one part at a time, through the Keras model and the artifacts."""

import dataclasses
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from keras_norm.export.checks.data_measurements import DataMeasurements
from keras_norm.export.checks.data_reader import Part
from keras_norm.export.checks.subject import Subject
from keras_norm.export.checks.train_inference_gap import GapMeter
from keras_norm.export.compare.arrays import kind_of, magnitude, where_nan
from keras_norm.export.compare.labels import read_labels
from keras_norm.export.compare.output_differences import add_profiles, measure, merge_measurements
from keras_norm.export.compare.prediction_changes import PredictionChanges
from keras_norm.export.compare.quantization_tolerance import add_spreads, spreads
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import TOLERANCES, coarsest
from keras_norm.export.errors import one_line
from keras_norm.export.model.tolerance_factors import model_precision, timestep_counter
from keras_norm.export.runtimes.runner import Run
from keras_norm.typing import Arrays


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch of the data, with its expected outputs: the outputs of the reference model.

    The reference model is the Keras model in a check, and the old version in a comparison of
    versions.

    Attributes:
        rows: the batch's samples, as a slice of the part's samples. Further rows of the batch pad
            it to the static batch size.
        case: the inputs.
        outputs: the outputs of the reference model.
        part_labels: labels of all samples of the part, by output name.
    """

    rows: slice
    case: Case
    outputs: Arrays
    part_labels: Arrays

    @property
    def count(self) -> int:
        """Number of samples in the batch, without the rows that pad it to the static batch size."""
        return int(self.rows.stop - self.rows.start)

    @property
    def row_outputs(self) -> Arrays:
        """The reference model's outputs that have one row for each row of the batch."""
        size = len(self.case.rows)
        return {n: y for n, y in self.outputs.items() if np.shape(y)[:1] == (size,)}

    @property
    def labels(self) -> Arrays:
        """The labels of the samples in this batch, by output name."""
        return {name: y[self.rows] for name, y in self.part_labels.items()}

    def cut(self, outputs: Arrays) -> Arrays:
        """Remove from outputs the rows that pad the batch to the static batch size."""
        return {name: y[: self.count] for name, y in outputs.items()}


def run_batches(part: Part, run: Run, size: int) -> Iterator[Batch]:
    """Run the reference model on a part of the data, and yield each batch with its outputs.

    The reference model is the model whose outputs are the expected outputs; see `Batch`.

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
            labels = read_labels(part.labels, batch.row_outputs)
            batch = dataclasses.replace(batch, part_labels=labels)
        yield batch


class DataComparison:
    """Measure the differences between artifacts and the Keras model, one part of data at a time.

    An artifact that raised an error is not run again.

    Args:
        model: a functional or Sequential model.
        run: the runner of `model`.
        gap: the measurement of the train/inference gap of `model`.
        artifacts: the artifacts to compare with `model`.
        rtol: relative tolerance; None for the tolerance of the values' precision.
        batch: largest batch size.

    Attributes:
        measured: the measurements of the Keras model on all parts so far. `Subject.on_data` has
            the measurements of an artifact.
    """

    def __init__(
        self,
        model: keras.Model,
        run: Run,
        gap: GapMeter,
        artifacts: Sequence[Subject],
        rtol: float | None,
        batch: int,
    ) -> None:
        self.model, self.run, self.gap, self.artifacts = model, run, gap, artifacts
        self.rtol, self.batch = rtol, batch
        self.measured = DataMeasurements()
        self._timesteps = timestep_counter(model)

    def add(self, part: Part) -> None:
        """Measure the artifacts and the train/inference gap on one part of the data.

        Inference mode runs in batches of at most `batch` samples. Training mode runs the whole part
        as one batch, or in batches of the model's static batch size.
        """
        labels: Arrays = {}
        for batch in run_batches(part, self.run, self.batch):
            labels = batch.part_labels
            self._add_reference(batch)
            for artifact in self.artifacts:
                self._add_artifact(artifact, batch, part.source)
        for rows, case in part.samples.batches(part.samples.count):
            self.gap.add(case.inputs, {name: y[rows] for name, y in labels.items()})

    def _add_reference(self, batch: Batch) -> None:
        """Measure the outputs of the Keras model for one batch."""
        found, own = self.measured, batch.cut(batch.row_outputs)
        found.samples += batch.count
        found.timesteps = max(found.timesteps, self._timesteps(batch.case.inputs))
        for name, y in batch.outputs.items():
            found.scales[name] = max(magnitude(y), found.scales.get(name, 0.0))
            count, nan = found.nan.get(name, (0, 0))
            found.nan[name] = count + y.size, nan + int(where_nan(y).sum())
        for name, y in own.items():
            first = found.first_rows.setdefault(name, y[:1])
            if y.shape[1:] != first.shape[1:] or (y != first).any():
                found.varying.add(name)
        found.spreads = add_spreads([*found.spreads, *spreads(own)])
        add_changes(found.keras.changes, batch, {name: own[name] for name in batch.labels})

    def _add_artifact(self, artifact: Subject, batch: Batch, source: str) -> None:
        """Run one batch through an artifact, and measure its outputs."""
        if artifact.runner is None:
            return
        try:
            outputs = artifact.runner(batch.case.inputs)
            actual = {name: np.asarray(value) for name, value in outputs.items()}
        # Catch every error, because a runner may raise any error. The artifact's result shows the
        # error, and the check goes on with the other artifacts.
        except Exception as error:
            artifact.runner, artifact.error = None, one_line(error)
            return
        found = artifact.on_data
        rtol = self.rtol
        if rtol is None:
            precision = model_precision(self.model, batch.outputs)
            rtol = TOLERANCES[coarsest([artifact.source.precision, precision])]
        measurements = measure(batch.outputs, actual, rtol, batch.case.rows, source)
        for new in measurements:
            old = found.outputs.get(new.output)
            found.outputs[new.output] = new if old is None else merge_measurements(old, new)
        add_profiles(found.profiles, batch.outputs, actual)
        # Divide by the largest absolute output: a difference of 0.1 is small for an output of 1000.
        excesses = (m.worst.excess(m.rtol) / (m.scale or 1.0) for m in measurements if m.worst)
        largest = max(excesses, default=-1.0)
        if found.worst is None or largest > found.largest:
            found.largest = largest
            found.worst = dataclasses.replace(batch.case, outputs=batch.outputs)
        wrong = {m.output for m in measurements if m.problem}
        add_changes(found.changes, batch, {n: y for n, y in actual.items() if n not in wrong})


def add_changes(
    changes: dict[str, PredictionChanges],
    batch: Batch,
    outputs: Arrays,
    rows: Sequence[int] = (),
    source: str = "",
) -> None:
    """Compare the predictions of a batch with the predictions of the reference model.

    Args:
        changes: the changes of each output, by name; this function adds to them.
        batch: the batch, with the outputs of the reference model.
        outputs: numbers in the shape of the reference model's outputs, by name. Other names than
            in `batch.row_outputs` are ignored.
        rows: as for `PredictionChanges.add`.
        source: as for `PredictionChanges.add`.
    """
    for name, before in batch.cut(batch.row_outputs).items():
        if name in outputs and before.size and kind_of(before) != "text":
            labels, after = batch.labels.get(name), outputs[name][: batch.count]
            change = changes.setdefault(name, PredictionChanges(name))
            change.add(before, after, labels, rows, source)
