"""Run all data, one part at a time, through the Keras model and the artifacts."""

import dataclasses
import hashlib
import math
from collections.abc import Iterator, Sequence

import keras
import numpy as np

from keras_norm.export.checks.data_reader import Part
from keras_norm.export.checks.model_clone import ModelClone
from keras_norm.export.checks.subject import Subject
from keras_norm.export.checks.train_inference_gap import GapMeter
from keras_norm.export.compare.arrays import kind_of, magnitude
from keras_norm.export.compare.merge import merge
from keras_norm.export.compare.metrics import count_equal, read_labels, tally
from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.quantization_tolerance import spreads
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.text_arrays import to_fixed_width
from keras_norm.export.compare.tolerance import TOLERANCES, coarsest
from keras_norm.export.errors import one_line
from keras_norm.export.model.tolerance_factors import model_precision, timestep_counter
from keras_norm.export.results.measurements import ArtifactMeasurements, DataMeasurements
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
            labels = read_labels(part.labels, batch.row_outputs, part.samples.count)
            batch = dataclasses.replace(batch, part_labels=labels)
        yield batch


class DataComparison:
    """Measure the differences between artifacts and the Keras model, one part at a time.

    An artifact that raised an error is not run again.

    Args:
        model: a functional or Sequential model.
        run: the runner of `model`.
        clone: the clone of `model`.
        artifacts: the artifacts to compare with `model`.
        rtol: relative tolerance; None for the tolerance of the values' precision.
        batch: largest batch size.

    Attributes:
        worst: the batch with the largest difference, and the outputs of the Keras model for it, by
            name of the artifact.
    """

    def __init__(
        self,
        model: keras.Model,
        run: Run,
        clone: ModelClone,
        artifacts: Sequence[Subject],
        rtol: float | None,
        batch: int,
    ) -> None:
        self.model, self.run, self.artifacts = model, run, artifacts
        self.rtol, self.batch = rtol, batch
        self.worst: dict[str, tuple[Case, Arrays]] = {}
        self._gap = GapMeter(clone)
        self._largest: dict[str, float] = {}
        self._timesteps = timestep_counter(model)

    def __call__(self, part: Part) -> DataMeasurements:
        """Measure the artifacts and the train/inference gap on one part of the data.

        Inference mode runs in batches of at most `batch` samples. Training mode runs the whole part
        as one batch, or in batches of the model's static batch size.
        """
        found: list[DataMeasurements] = []
        labels: Arrays = {}
        for batch in run_batches(part, self.run, self.batch):
            labels, own = batch.part_labels, batch.cut(batch.row_outputs)
            found.append(
                DataMeasurements(
                    samples=batch.count,
                    timesteps=self._timesteps(batch.case.inputs),
                    scales=tuple((name, magnitude(y)) for name, y in batch.outputs.items()),
                    rows_by_output=_hash_rows(batch),
                    spreads=spreads(own),
                    tallies=tally(batch.labels, own, own),
                    artifacts=tuple(
                        self._measure(artifact, batch, part.source) for artifact in self.artifacts
                    ),
                )
            )
        for rows, case in part.samples.batches(part.samples.count):
            batch_labels = {name: y[rows] for name, y in labels.items()}
            found.append(DataMeasurements(gap=self._gap(case.inputs, batch_labels)))
        return merge(found)

    def _measure(self, artifact: Subject, batch: Batch, source: str) -> ArtifactMeasurements:
        name = artifact.source.name
        if artifact.runner is None:
            return ArtifactMeasurements(name, error=artifact.error)
        try:
            outputs = artifact.runner(batch.case.inputs)
            actual = {name: np.asarray(value) for name, value in outputs.items()}
        # Catch every error, because a runner may raise any error. The artifact's result shows the
        # error, and the check goes on with the other artifacts.
        except Exception as error:
            artifact.runner, artifact.error = None, one_line(error)
            return ArtifactMeasurements(name, error=artifact.error)
        rtol = self.rtol
        if rtol is None:
            precision = model_precision(self.model, batch.outputs)
            rtol = TOLERANCES[coarsest([artifact.source.precision, precision])]
        measurements = measure(batch.outputs, actual, rtol, batch.case.rows, source)
        # Divide by the largest absolute output: a difference of 0.1 is small for an output of 1000.
        excesses = (m.worst.excess(m.rtol) / (m.scale or 1.0) for m in measurements if m.worst)
        largest = max(excesses, default=-1.0)
        if largest > self._largest.get(name, -math.inf):
            self._largest[name], self.worst[name] = largest, (batch.case, batch.outputs)
        # An output with another shape or kind of dtype than in the Keras model has no metric.
        kinds = {n: (y.shape, kind_of(y)) for n, y in batch.row_outputs.items()}
        alike = {n: y for n, y in actual.items() if kinds.get(n) == (y.shape, kind_of(y))}
        compared = batch.labels, batch.cut(alike), batch.cut(batch.row_outputs)
        return ArtifactMeasurements(name, measurements, tally(*compared), count_equal(*compared))


def _hash_rows(batch: Batch) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Hash the first row of each output, and one further row that differs from the first row.

    Two hashes show that an output is not equal for all samples.
    """
    found = []
    for name, y in batch.cut(batch.row_outputs).items():
        others = y[(y != y[:1]).reshape(len(y), -1).any(axis=1)]
        rows = [y[0], *others[:1]]
        # Adding 0 turns -0.0 into 0.0, so that both zeros have one hash.
        stored = [to_fixed_width(r) if kind_of(y) == "text" else np.asarray(r + 0) for r in rows]
        hashes = {hashlib.sha256(f"{r.shape}".encode() + r.tobytes()).hexdigest() for r in stored}
        found.append((name, tuple(sorted(hashes))))
    return tuple(found)
