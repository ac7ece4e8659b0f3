"""The predictions that differ between two versions of a model."""

import dataclasses

from keras_norm.export.results.artifact_result import Metric
from keras_norm.export.results.json_dataclass import JsonDataclass

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


@dataclasses.dataclass(frozen=True)
class VersionComparison(JsonDataclass):
    """Differences between the predictions of new versions and of an old version.

    Attributes:
        old: name of the old version.
        samples: number of samples.
        versions: (name, one entry for every output) pairs, one for each new version.
    """

    NOUN = "comparison of versions"

    old: str
    samples: int
    versions: tuple[tuple[str, tuple[OutputChange, ...]], ...]

    @property
    def verdict(self) -> str:
        """Text about the changed predictions, with one line for each new version of the model."""
        return "\n".join(_verdict(name, outputs) for name, outputs in self.versions)


def _verdict(name: str, outputs: tuple[OutputChange, ...]) -> str:
    parts = []
    for output in outputs:
        text = f"{output.output}: differs by up to {output.largest:.2g}"
        if output.classes:
            share = output.changed / (output.predictions or 1)
            text = f"{output.output}: {output.changed} of {output.predictions} predictions change"
            text += f" ({share:.2%})"
        if output.classes and output.metrics and output.metrics[0].name == "accuracy":
            text += f", {output.fixed} become right and {output.broken} wrong"
        if output.lost:
            text += f", {output.lost} of {output.values} values became NaN or infinite"
        if output.metrics is not None:
            old, new = output.metrics
            text += f", {old.name} {old.value:.4g} -> {new.value:.4g}"
        parts.append(text)
    return f"{name}: {'; '.join(parts)}"
