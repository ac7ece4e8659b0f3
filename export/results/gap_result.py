"""The train/inference gap: the difference between training and inference mode on equal inputs."""

import dataclasses
import math

from keras_norm.export.results.output_comparison import largest_known

# A gap is large above either limit: moving means are one standard deviation off on average, or
# variances differ by a factor of four.
LARGE_DISTANCE = 1.0
LARGE_LOG_RATIO = math.log(4.0)
# Report a gap above this share of the largest output, or this many standard deviations.
NOTABLE = 0.1


@dataclasses.dataclass(frozen=True)
class OutputGap:
    """|training output - inference output| of one output.

    Attributes:
        output: name of the output.
        worst: the largest difference over all elements.
        mean: the mean difference over all elements.
        scale: the largest absolute output in inference mode.
    """

    output: str
    worst: float
    mean: float
    scale: float

    @property
    def notable(self) -> bool:
        """Whether the report mentions this gap: it exceeds `NOTABLE` times the scale."""
        return self.worst > NOTABLE * self.scale


@dataclasses.dataclass(frozen=True)
class MetricGap:
    """A metric of one output of the Keras model in inference mode and in training mode.

    Attributes:
        output: name of the output.
        name: "accuracy" or "mean squared error".
        inference: value in inference mode.
        training: value in training mode with dropout off.
    """

    output: str
    name: str
    inference: float
    training: float


@dataclasses.dataclass(frozen=True)
class LayerStatistics:
    """Distance between one BatchNorm's moving statistics and the statistics of the data.

    Attributes:
        path: path of the layer.
        distance: mean of |batch mean - moving mean| / sqrt(moving variance + epsilon), in standard
            deviations; None if nothing could be compared.
        log_ratio: mean of |log((batch variance + epsilon) / (moving variance + epsilon))|.
        by_row: the distance of each row of per-timestep statistics, None for rows that training or
            the data did not reach; one value for a layer with one row.
        trained_rows: number of rows that training reached.
        data_rows: number of rows that the data reached.
        note: a remark for the report, or "".
        updates: number of updates of each row; None for a layer that does not count updates, such
            as `keras.layers.BatchNormalization`.
        initial_share: largest weight of the initial value in the moving statistics of a row:
            momentum^updates. 0 for averages that exclude the initial value (debiased, cumulative),
            None if the layer does not count updates.
    """

    path: str
    distance: float | None
    log_ratio: float | None
    by_row: tuple[float | None, ...]
    trained_rows: int
    data_rows: int
    note: str
    updates: tuple[int, ...] | None = None
    initial_share: float | None = None

    @property
    def factor(self) -> float | None:
        """The factor between the variances: a geometric mean over features and rows."""
        return None if self.log_ratio is None else math.exp(self.log_ratio)

    @property
    def large(self) -> bool:
        """Whether the moving statistics are too far from the data's statistics for inference."""
        return self.distance is not None and (
            self.distance > LARGE_DISTANCE or (self.log_ratio or 0.0) > LARGE_LOG_RATIO
        )


@dataclasses.dataclass(frozen=True)
class TrainInferenceGap:
    """The difference between training mode, with dropout off, and inference mode.

    Attributes:
        verdict: "ok", "large" or "not measured".
        reason: the reason for the verdict, in one line.
        outputs: one entry for every output.
        layers: one entry for every batch normalization, also in nested layers.
        max_gap: largest `OutputGap.worst` that passes; with None the gap cannot fail the check.
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
        """The largest gap of all outputs, NaN if any gap is NaN; None if no gap was measured."""
        return largest_known(gap.worst for gap in self.outputs)

    @property
    def passed(self) -> bool:
        """False if `max_gap` is given, and the gap exceeds it or was not measured; else True."""
        return self.max_gap is None or (self.worst is not None and self.worst <= self.max_gap)
