"""Hold the measurements of a check on all samples of the data, updated after each batch."""

import dataclasses

from keras_norm.export.compare.prediction_changes import PredictionChanges
from keras_norm.export.compare.quantization_tolerance import Spread
from keras_norm.export.compare.samples import Case
from keras_norm.export.results.artifact_result import Metric
from keras_norm.export.results.output_comparison import DifferenceProfile, Measurement
from keras_norm.typing import Array


@dataclasses.dataclass
class ArtifactMeasurements:
    """Differences of one exported file from the Keras model, on all samples of the data.

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
        """The metrics of the outputs with labels."""
        found = (changes.result().metrics for changes in self.changes.values())
        return tuple(pair[1] for pair in found if pair is not None)


@dataclasses.dataclass
class DataMeasurements:
    """Measurements of the Keras model on all samples of the data.

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
