"""The measured differences between training mode and inference mode of a Keras model."""

import dataclasses
import math

from keras_norm.export.results.output_comparison import largest_known

# Limits for the moving statistics of a BatchNorm. The moving statistics are too far from the data's
# statistics if the means differ by more than one standard deviation on average, or if the variances
# differ by more than a factor of four.
LARGE_DISTANCE = 1.0
LARGE_LOG_RATIO = math.log(4.0)
# The report mentions an output if its values in training mode and inference mode differ too much.
# The limit is 0.1 times the largest absolute value of this output. The report mentions a BatchNorm
# if its moving means differ from the means of the data by more than 0.1 standard deviations.
NOTABLE = 0.1


@dataclasses.dataclass(frozen=True)
class OutputGap:
    """How much one output differs between training mode and inference mode.

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
        """Whether the report mentions this difference between training and inference mode.

        The difference is large if it exceeds `NOTABLE` times the largest output.
        """
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
        """The average factor by which moving variances differ from the variances of the data."""
        return None if self.log_ratio is None else math.exp(self.log_ratio)

    @property
    def large(self) -> bool:
        """Whether the moving statistics are too far from the data's statistics for inference."""
        return self.distance is not None and (
            self.distance > LARGE_DISTANCE or (self.log_ratio or 0.0) > LARGE_LOG_RATIO
        )


@dataclasses.dataclass(frozen=True)
class TrainInferenceGap:
    """The differences between the outputs in training mode (dropout off) and inference mode.

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
        """The largest difference between training and inference mode; None if not measured."""
        return largest_known(gap.worst for gap in self.outputs)

    @property
    def passed(self) -> bool:
        """Whether training and inference mode differ by at most `max_gap`; True if that is None.

        A difference that was not measured does not pass a `max_gap`.
        """
        return self.max_gap is None or (self.worst is not None and self.worst <= self.max_gap)

    @property
    def description(self) -> str:
        """A line that says that training and inference mode differ by more than `max_gap`."""
        known = self.worst is not None
        size = f"is {self.worst:.3g}" if known else f"was not measured ({self.reason})"
        return (
            "the train/inference gap (the difference between the outputs in training mode and in "
            f"inference mode) {size}, but must be at most max_gap={self.max_gap:.3g}"
        )
