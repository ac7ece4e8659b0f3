"""What was measured on a part of the data: parts merge, in any order, to what the whole gives."""

import dataclasses

import numpy as np

from keras_norm.export.results.artifact_result import Tally
from keras_norm.export.results.output_comparison import Measurement


@dataclasses.dataclass(frozen=True)
class Measured:
    """One artefact in one runner, on a part of the data.

    Attributes:
        name: how the report calls it.
        outputs: how far each output is from the Keras model's.
        tallies: what the metrics of the outputs with labels are means of.
        error: why it could not be run, or None.
    """

    name: str
    outputs: tuple[Measurement, ...] = ()
    tallies: tuple[Tally, ...] = ()
    error: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """How one output of the Keras model varies over samples whose rows have one shape.

    Attributes:
        output: name of the output.
        samples: number of samples, n.
        total: (shape of a row), sum over the samples of y.
        squares: sum over all elements of y^2.
    """

    output: str
    samples: int
    total: np.ndarray
    squares: float


@dataclasses.dataclass(frozen=True)
class ModeDifference:
    """|training output - inference output| of one output, over batches of so many rows.

    Attributes:
        output: name of the output.
        rows: number of rows of each batch.
        worst: the largest over all elements.
        total: the sum over all elements.
        count: number of elements.
        scale: the largest absolute inference output.
    """

    output: str
    rows: int
    worst: float
    total: float
    count: int
    scale: float


@dataclasses.dataclass(frozen=True, eq=False)
class BatchStatistics:
    """What one BatchNorm takes statistics of in training.

    Attributes:
        place: of the layer among the model's batch normalizations: their paths may have numbers
            that are another process' own.
        positions: (rows, 1), number of values that each row of statistics is taken over.
        mean: (rows, features), of these values.
        variance: (rows, features), of these values.
    """

    place: int
    positions: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@dataclasses.dataclass(frozen=True)
class PartialGap:
    """Training mode against inference mode, on a part of the data.

    Attributes:
        outputs: one entry for every output and number of rows of a batch.
        layers: one entry for every batch normalization, however nested.
        inference: what the metrics in inference mode are means of.
        training: the same in training mode.
        error: why it could not be measured, or None.
    """

    outputs: tuple[ModeDifference, ...] = ()
    layers: tuple[BatchStatistics, ...] = ()
    inference: tuple[Tally, ...] = ()
    training: tuple[Tally, ...] = ()
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Partial:
    """All that a check measures on a part of the data.

    Attributes:
        samples: number of samples.
        timesteps: most that a recurrent layer ran; 1 without one.
        scales: (output, largest absolute value that the Keras model gives) pairs.
        rows_by_output: (output, hashes of its rows) pairs, two of them where rows differ.
        spreads: how its outputs vary.
        tallies: what its metrics are means of.
        artifacts: one entry for every artefact and runner.
        gap: training mode against inference mode.
    """

    samples: int = 0
    timesteps: int = 0
    scales: tuple[tuple[str, float], ...] = ()
    rows_by_output: tuple[tuple[str, tuple[str, ...]], ...] = ()
    spreads: tuple[Spread, ...] = ()
    tallies: tuple[Tally, ...] = ()
    artifacts: tuple[Measured, ...] = ()
    gap: PartialGap = PartialGap()
