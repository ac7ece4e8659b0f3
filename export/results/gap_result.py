"""The train/inference gap: how far training mode is from inference mode on the same data."""

import dataclasses
import math

from keras_norm.export.results.output_comparison import largest_known

# A gap is called large beyond these: batch means one standard deviation away on average, or
# variances that differ by a factor of four.
LARGE_DISTANCE = 1.0
LARGE_LOG_RATIO = math.log(4.0)
# Worth a word: a share of the largest output, or a distance in standard deviations.
NOTABLE = 0.1


@dataclasses.dataclass(frozen=True)
class OutputGap:
    """|training output - inference output| of one output.

    Attributes:
        output: name of the output.
        worst: the largest over all elements.
        mean: the mean over all elements.
        scale: the largest absolute inference output.
    """

    output: str
    worst: float
    mean: float
    scale: float

    @property
    def notable(self) -> bool:
        """Whether it is worth a word."""
        return self.worst > NOTABLE * self.scale


@dataclasses.dataclass(frozen=True)
class MetricGap:
    """A metric of one output of the Keras model, in both modes.

    Attributes:
        output: name of the output.
        name: "accuracy" or "mean squared error".
        inference: in inference mode.
        training: in training mode, dropout off.
    """

    output: str
    name: str
    inference: float
    training: float


@dataclasses.dataclass(frozen=True)
class LayerStatistics:
    """Distance of one BatchNorm's moving statistics from those of the data.

    Attributes:
        path: path of the layer.
        distance: mean of |batch mean - moving mean| / sqrt(moving variance + epsilon), in standard
            deviations; None where nothing could be compared.
        log_ratio: mean of |log((batch variance + epsilon) / (moving variance + epsilon))|.
        by_row: the distance of each row of per-timestep statistics, None for rows that training or
            the data did not reach; one value for a layer with one row.
        trained_rows: number of rows that training reached.
        data_rows: number of rows that the data reached.
        note: what else there is to know, or "".
        updates: number of updates that each row had; None for a layer that does not count them, as
            Keras' own does not.
        started: largest share that what a row started with still has in it: momentum^updates; 0 for
            averages that leave it out (debiased, cumulative), None where updates are not counted.
    """

    path: str
    distance: float | None
    log_ratio: float | None
    by_row: tuple[float | None, ...]
    trained_rows: int
    data_rows: int
    note: str
    updates: tuple[int, ...] | None = None
    started: float | None = None

    @property
    def factor(self) -> float | None:
        """The factor between the variances, averaged over features and rows as a logarithm."""
        return None if self.log_ratio is None else math.exp(self.log_ratio)

    @property
    def large(self) -> bool:
        """Whether the layer will act differently at inference."""
        return self.distance is not None and (
            self.distance > LARGE_DISTANCE or (self.log_ratio or 0.0) > LARGE_LOG_RATIO
        )


@dataclasses.dataclass(frozen=True)
class TrainInferenceGap:
    """How far training mode is from inference mode, dropout off.

    Attributes:
        verdict: "ok", "large" or "not measured".
        reason: why, in one line.
        outputs: one entry for every output.
        layers: one entry for every batch normalization, however nested.
        max_gap: largest `OutputGap.worst` that passes, or None: then the gap is information only.
        metrics: one entry for every output with labels.
    """

    verdict: str
    reason: str
    outputs: tuple[OutputGap, ...] = ()
    layers: tuple[LayerStatistics, ...] = ()
    max_gap: float | None = None
    metrics: tuple[MetricGap, ...] = ()

    @property
    def worst(self) -> float | None:
        """The largest gap of any output, NaN if one is; None when it was not measured."""
        return largest_known(gap.worst for gap in self.outputs)

    @property
    def passed(self) -> bool:
        """False only when `max_gap` is given and exceeded, or could not be tested."""
        return self.max_gap is None or (self.worst is not None and self.worst <= self.max_gap)
