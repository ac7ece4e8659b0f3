"""The predictions of one output that differ between two versions of a model."""

import dataclasses

from keras_norm.export.results.artifact_result import Metric

# A comparison of versions lists at most 20 changed predictions, the largest changes first.
MAX_LISTED = 20


@dataclasses.dataclass(frozen=True)
class ChangedPrediction:
    """One prediction that changed from the old version to the new version of a model.

    Attributes:
        where: the sample, and in sequences the timestep, as (axis, index) pairs.
        before: prediction of the old version: a class, or a number.
        after: prediction of the new version.
        size: the largest |new - old| of the output values behind the prediction.
        label: the label; None without labels.
    """

    where: tuple[tuple[str, int], ...]
    before: float
    after: float
    size: float
    label: float | None = None


@dataclasses.dataclass(frozen=True)
class ClassChange:
    """Number of predictions that changed from the class `before` to the class `after`."""

    before: float
    after: float
    count: int


@dataclasses.dataclass(frozen=True)
class OutputChange:
    """Changes in one output's predictions from the old version to the new version of a model.

    Attributes:
        output: name of the output in the old version.
        classes: whether the output predicts classes, so that changed predictions are counted.
        predictions: number of predictions, without those whose label is below 0 (padding).
        changed: number of predictions with another class.
        fixed: number of predictions that were wrong and are right now; 0 without labels.
        broken: number of predictions that were right and are wrong now; 0 without labels.
        mean: the mean of |new - old| over all values; 0 for a value that is not finite.
        values: number of values.
        largest: the largest |new - old| of finite values.
        largest_changes: the predictions that changed most; for classes, only predictions with
            another class.
        class_changes: number of changed predictions for each pair of an old and a new class.
        metrics: the metric of the old version and of the new version; None without labels.
        lost: number of values that are finite in the old version, and NaN or infinite in the new.
    """

    output: str
    classes: bool
    predictions: int
    changed: int
    fixed: int
    broken: int
    mean: float
    values: int
    largest: float
    largest_changes: tuple[ChangedPrediction, ...]
    class_changes: tuple[ClassChange, ...]
    metrics: tuple[Metric, Metric] | None = None
    lost: int = 0
