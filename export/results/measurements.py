"""Dataclasses for the measurements of a check on a part of the data.

`keras_norm.export.compare.merge` merges the measurements of all parts, in any order. The result is
the measurement on all data.
"""

import dataclasses

import numpy as np

from keras_norm.export.results.artifact_result import Tally
from keras_norm.export.results.output_comparison import Measurement


@dataclasses.dataclass(frozen=True)
class ArtifactMeasurements:
    """Measurements of one exported file in one runtime, on a part of the data.

    Attributes:
        name: name in the report.
        outputs: differences between each output and the output of the Keras model.
        tallies: sums and counts for the metrics of the outputs with labels.
        agreements: counts of the predictions that equal the predictions of the Keras model.
        error: the reason why the artifact could not be run, or None.
    """

    name: str
    outputs: tuple[Measurement, ...] = ()
    tallies: tuple[Tally, ...] = ()
    agreements: tuple[Tally, ...] = ()
    error: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """Sums from which the variance of one output y of the Keras model is computed.

    The sums are over samples of equal shape.

    Attributes:
        output: name of the output.
        samples: number of samples.
        total: sum of y over the samples, an array with the shape of a row.
        squares: sum of y^2 over all elements.
    """

    output: str
    samples: int
    total: np.ndarray
    squares: float


@dataclasses.dataclass(frozen=True)
class ConstantDifference:
    """Difference between a constant of a quantized file and of a new export of the Keras model.

    Attributes:
        name: name of the constant in the file.
        layers: the layer that the constant belongs to, for a message.
        difference: |actual - expected|, at the value that rounding explains least.
        rounding: the sum of the rounding errors of both constants at this value.
    """

    name: str
    layers: str
    difference: float
    rounding: float


@dataclasses.dataclass(frozen=True)
class ModeDifference:
    """Differences between training mode and inference mode of one output, for one batch size.

    Attributes:
        output: name of the output.
        rows: number of rows of each batch.
        worst: the largest difference over all elements.
        total: the sum of the differences over all elements.
        count: number of elements.
        scale: the largest absolute output in inference mode.
    """

    output: str
    rows: int
    worst: float
    total: float
    count: int
    scale: float


@dataclasses.dataclass(frozen=True, eq=False)
class BatchStatistics:
    """Batch statistics of the inputs of one BatchNorm in training mode.

    Attributes:
        index: index of the layer among the model's batch normalizations. The path of the layer is
            not used: it may contain numbers that differ between processes.
        positions: (rows, 1), number of values in each row of statistics.
        mean: (rows, features), mean of these values.
        variance: (rows, features), variance of these values.
    """

    index: int
    positions: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclasses.dataclass(frozen=True)
class GapMeasurements:
    """Differences between training mode and inference mode, on a part of the data.

    Attributes:
        outputs: one entry for every pair of an output and a batch size.
        layers: one entry for every batch normalization, also in nested layers.
        inference: sums and counts for the metrics in inference mode.
        training: sums and counts for the metrics in training mode.
        error: the reason why the difference could not be measured, or None.
    """

    outputs: tuple[ModeDifference, ...] = ()
    layers: tuple[BatchStatistics, ...] = ()
    inference: tuple[Tally, ...] = ()
    training: tuple[Tally, ...] = ()
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class DataMeasurements:
    """All measurements of a check on a part of the data.

    Attributes:
        samples: number of samples.
        timesteps: most timesteps that a recurrent layer ran; 1 without a recurrent layer.
        scales: (output, its largest absolute value in the Keras model) pairs.
        rows_by_output: (output, hashes of its rows) pairs; one hash if all rows are equal, two
            hashes if rows differ.
        spreads: sums for the variance of each output of the Keras model.
        tallies: sums and counts for the metrics of the Keras model.
        artifacts: one entry for every artifact and runner.
        gap: differences between training mode and inference mode.
    """

    samples: int = 0
    timesteps: int = 0
    scales: tuple[tuple[str, float], ...] = ()
    rows_by_output: tuple[tuple[str, tuple[str, ...]], ...] = ()
    spreads: tuple[Spread, ...] = ()
    tallies: tuple[Tally, ...] = ()
    artifacts: tuple[ArtifactMeasurements, ...] = ()
    gap: GapMeasurements = GapMeasurements()
