"""Run all data, one part at a time, through the Keras model and the artifacts."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_norm.export.checks.batches import Batch, batches
from keras_norm.export.checks.data_reader import Part
from keras_norm.export.checks.run_artifacts import Opened
from keras_norm.export.checks.train_inference_gap import GapMeter
from keras_norm.export.compare.element_differences import Arrays, magnitude
from keras_norm.export.compare.input_cases import Case
from keras_norm.export.compare.merge import merge
from keras_norm.export.compare.metrics import tally
from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.quantization_tolerance import spreads
from keras_norm.export.compare.tolerance import TOLERANCES, coarsest
from keras_norm.export.errors import one_line
from keras_norm.export.model.depth import timesteps_of
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.precision import model_precision
from keras_norm.export.results.artifact_result import Tally
from keras_norm.export.results.measurements import Measured, Partial


class Sweep:
    """Measure the differences between artifacts and the Keras model, one part at a time.

    An artifact that raised an error is not run again.

    Args:
        model: a functional or Sequential model.
        run: the runner of `model`.
        artifacts: the artifacts to compare with `model`.
        rtol: relative tolerance; None for the tolerance of the values' precision.
        batch: largest batch size.

    Attributes:
        worst: the batch with the largest difference, and the outputs of the Keras model for it, by
            name of the artifact.
    """

    def __init__(
        self,
        model: Any,
        run: KerasRunner,
        artifacts: Sequence[Opened],
        rtol: float | None,
        batch: int,
    ) -> None:
        self.model, self.run, self.artifacts = model, run, artifacts
        self.rtol, self.batch = rtol, batch
        self.gap = GapMeter(model)
        self.worst: dict[str, tuple[Case, Arrays]] = {}
        self._off: dict[str, float] = {}
        self._timesteps = timesteps_of(model)

    def __call__(self, part: Part) -> Partial:
        """Measure one part of the data.

        Inference mode runs in batches of at most `batch` samples. Training mode runs the whole part
        as one batch, or in batches of the model's static batch size.
        """
        found: list[Partial] = []
        labels: Arrays = {}
        for batch in batches(part, self.run, self.batch):
            labels = batch.labels
            found.append(
                Partial(
                    samples=batch.count,
                    timesteps=self._timesteps(batch.case.inputs),
                    scales=tuple((name, magnitude(y)) for name, y in batch.answer.items()),
                    rows_by_output=_rows_by_output(batch),
                    spreads=spreads(batch.counted(batch.with_rows)),
                    tallies=_tally(batch, batch.answer),
                    artifacts=tuple(
                        self._measured(artifact, batch, part.source) for artifact in self.artifacts
                    ),
                )
            )
        for rows, case in part.samples.batches(part.samples.count):
            given = {name: y[rows] for name, y in labels.items()}
            found.append(Partial(gap=self.gap(case.inputs, given)))
        return merge(found)

    def _measured(self, artifact: Opened, batch: Batch, source: str) -> Measured:
        name = artifact.source.name
        if artifact.run is None:
            return Measured(name, error=artifact.error)
        try:
            answer = artifact.run(batch.case.inputs)
            actual = {name: np.asarray(value) for name, value in answer.items()}
        # Any error of a runner belongs to the result of its artifact; other artifacts still run.
        except Exception as error:
            artifact.run, artifact.error = None, one_line(error)
            return Measured(name, error=artifact.error)
        rtol = self.rtol
        if rtol is None:
            own = model_precision(self.model, batch.answer)
            rtol = TOLERANCES[coarsest([artifact.source.precision, own])]
        outputs = measure(batch.answer, actual, rtol, batch.case.rows, source)
        # Relative to the largest absolute output.
        shares = (m.worst.excess(m.rtol) / (m.scale or 1.0) for m in outputs if m.worst)
        off = max(shares, default=-1.0)
        if off > self._off.get(name, -math.inf):
            self._off[name], self.worst[name] = off, (batch.case, batch.answer)
        return Measured(name, outputs, _tally(batch, actual))


def _rows_by_output(batch: Batch) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Hash the first row of each output, and one row that differs from it if there is one."""
    found = []
    for name, y in batch.counted(batch.with_rows).items():
        others = y[(y != y[:1]).reshape(len(y), -1).any(axis=1)]
        rows = [y[0], *others[:1]]
        # Adding 0 turns -0.0 into 0.0, so that both zeros have one hash.
        hashes = {
            hashlib.sha256(f"{r.shape}".encode() + (r + 0).tobytes()).hexdigest() for r in rows
        }
        found.append((name, tuple(sorted(hashes))))
    return tuple(found)


def _tally(batch: Batch, outputs: Arrays) -> tuple[Tally, ...]:
    """Return the tallies of the outputs that have the shape of the Keras model's outputs."""
    own = batch.with_rows
    alike = {n: y for n, y in outputs.items() if n in own and y.shape == own[n].shape}
    return tally(batch.given, batch.counted(alike), batch.counted(own))
