"""All data, a part at a time, through the Keras model and the artefacts."""

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
    """Measures parts of the data; an artefact that raised is asked no more.

    Args:
        model: a functional or Sequential model.
        run: its runner.
        artifacts: what is compared with it.
        rtol: relative tolerance; None for that of the values' precision.
        batch: most samples of a call.

    Attributes:
        worst: by artefact, the batch that was furthest off, and what the Keras model gives for it.
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
        """Run one part in batches, and in training mode as one, unless the model takes one size."""
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
        # Whatever a runner raises is a finding about its artefact; the others go on.
        except Exception as error:
            artifact.run, artifact.error = None, one_line(error)
            return Measured(name, error=artifact.error)
        rtol = self.rtol
        if rtol is None:
            own = model_precision(self.model, batch.answer)
            rtol = TOLERANCES[coarsest([artifact.source.precision, own])]
        outputs = measure(batch.answer, actual, rtol, batch.case.rows, source)
        # As a share of an output's size.
        shares = (m.worst.excess(m.rtol) / (m.scale or 1.0) for m in outputs if m.worst)
        off = max(shares, default=-1.0)
        if off > self._off.get(name, -math.inf):
            self._off[name], self.worst[name] = off, (batch.case, batch.answer)
        return Measured(name, outputs, _tally(batch, actual))


def _rows_by_output(batch: Batch) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """A hash of the first row of each output, and of one that differs from it, if any."""
    found = []
    for name, y in batch.counted(batch.with_rows).items():
        others = y[(y != y[:1]).reshape(len(y), -1).any(axis=1)]
        rows = [y[0], *others[:1]]
        # Adding 0 makes one zero of 0.0 and -0.0.
        hashes = {
            hashlib.sha256(f"{r.shape}".encode() + (r + 0).tobytes()).hexdigest() for r in rows
        }
        found.append((name, tuple(sorted(hashes))))
    return tuple(found)


def _tally(batch: Batch, outputs: Arrays) -> tuple[Tally, ...]:
    """The metrics of those outputs that have the shape of the Keras model's."""
    own = batch.with_rows
    alike = {n: y for n, y in outputs.items() if n in own and y.shape == own[n].shape}
    return tally(batch.given, batch.counted(alike), batch.counted(own))
