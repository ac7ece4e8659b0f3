"""What another version of a model predicts differently, and for whom."""

import dataclasses

from keras_norm.export.results.artifact_result import Metric, Tally
from keras_norm.export.results.json_dataclass import InJson

# Predictions that are listed one by one: those that changed, by how much their outputs did.
LISTED = 20


@dataclasses.dataclass(frozen=True)
class Change:
    """One prediction of both versions.

    Attributes:
        where: of which sample, and in sequences which timestep, as (axis, index) pairs.
        before: what the old version predicts: a class, or a number.
        after: what the new one does.
        size: the largest |new - old| of the outputs that the prediction is made of.
        label: what it should be; None without labels.
    """

    where: tuple[tuple[str, int], ...]
    before: float
    after: float
    size: float
    label: float | None = None


@dataclasses.dataclass(frozen=True)
class Flip:
    """How many predictions changed from one class to another."""

    before: float
    after: float
    count: int


@dataclasses.dataclass(frozen=True)
class OutputChange:
    """What changed in one output; those of several parts of the data add up.

    Attributes:
        output: its name in the old version.
        classes: whether it predicts classes; what changed is then counted.
        predictions: how many there are, but for those whose label is below 0 (padding).
        changed: those that are of another class.
        fixed: those that were wrong and are right; 0 without labels.
        broken: those that were right and are wrong; 0 without labels.
        total: sum of |new - old| over all values.
        values: how many values that are.
        largest: the largest |new - old|, of finite values.
        lost: how many finite values of the old version are NaN or infinite in the new one.
        listed: the predictions that changed most; of classes, those that are of another class.
        flips: how many changed from which class to which.
        before: what the old version's metric is a mean of; None without labels.
        after: the same of the new version.
    """

    output: str
    classes: bool
    predictions: int
    changed: int
    fixed: int
    broken: int
    total: float
    values: int
    largest: float
    listed: tuple[Change, ...]
    flips: tuple[Flip, ...]
    before: Tally | None = None
    after: Tally | None = None
    lost: int = 0

    @property
    def mean(self) -> float:
        """The mean of |new - old| over all values."""
        return self.total / (self.values or 1)

    @property
    def metrics(self) -> tuple[Metric, Metric] | None:
        """The metric of the old and of the new version; None without labels."""
        if self.before is None or self.after is None:
            return None
        return self.before.metric, self.after.metric


@dataclasses.dataclass(frozen=True)
class Changes(InJson):
    """What new versions predict differently from an old one.

    Attributes:
        old: how the old version is called.
        samples: number of samples.
        versions: (name, one entry for every output) pairs, one for each new version.
    """

    CALLED = "comparison of versions"

    old: str
    samples: int
    versions: tuple[tuple[str, tuple[OutputChange, ...]], ...]

    @property
    def verdict(self) -> str:
        """One line for each new version."""
        return "\n".join(_verdict(name, outputs) for name, outputs in self.versions)


def _verdict(name: str, outputs: tuple[OutputChange, ...]) -> str:
    told = []
    for output in outputs:
        text = f"{output.output}: differs by up to {output.largest:.2g}"
        if output.classes:
            share = output.changed / (output.predictions or 1)
            text = f"{output.output}: {output.changed} of {output.predictions} predictions change"
            text += f" ({share:.2%})"
        if output.classes and output.before is not None:
            text += f", {output.fixed} become right and {output.broken} wrong"
        if output.lost:
            text += f", {output.lost} of {output.values} values are NaN or infinite"
        if output.metrics is not None:
            old, new = output.metrics
            text += f", {old.name} {old.value:.4g} -> {new.value:.4g}"
        told.append(text)
    return f"{name}: {'; '.join(told)}"
