"""Count the predictions of an output that differ between two models, and compute its metric."""

import collections
import heapq
from collections.abc import Sequence

import numpy as np

from keras_norm.export.compare.arrays import axis_names, kind_of, to_float64
from keras_norm.export.compare.labels import are_indices
from keras_norm.export.results.artifact_result import Metric
from keras_norm.export.results.output_change import (
    MAX_LISTED,
    ChangedPrediction,
    ClassChange,
    OutputChange,
)
from keras_norm.typing import Array

# Rules that turn the values of an output into predictions. VALUE: each value is a prediction.
# LARGEST: the prediction is the index of the largest value on the last axis. HALF: a value above
# 0.5 is class 1, and any other value is class 0. ZERO: a value above 0 is class 1.
VALUE, LARGEST, HALF, ZERO = "value", "largest", "0.5", "0"


class PredictionChanges:
    """Count the predictions of one output that differ between two models, batch by batch.

    `before` has the outputs of the Keras model, of inference mode, or of the old version of a
    model. `after` has the outputs of an artifact, of training mode, or of a new version.

    `before` and the labels define the predictions and the metric:
    `keras_norm.export.compare_versions` has the rules.

    Args:
        output: name of the output.
    """

    def __init__(self, output: str) -> None:
        self.output = output
        self._metric: str | None = None
        self._sums: collections.Counter[str] = collections.Counter()
        self._largest = 0.0
        # `_shares` is True if all outputs of the first model are between 0 and 1. `_distribution`
        # is True if these outputs also sum to 1 on the last axis.
        self._shares = self._distribution = True
        # Counts of changed predictions by rule. A rule, such as LARGEST, derives the prediction
        # from the outputs. Two rules are counted, because only the last batch shows whether all
        # outputs are probabilities and so which rule applies.
        self._counts: dict[str, _Counts] = {}

    def add(
        self,
        before: Array,
        after: Array,
        labels: Array | None = None,
        rows: Sequence[int] = (),
        source: str = "",
    ) -> None:
        """Count the changed predictions of one batch.

        Args:
            before: numbers, (rows, ...).
            after: numbers in the shape of `before`.
            labels: labels of the rows (`keras_norm.export.compare.labels.read_labels`), or None.
            rows: sample number of each row; () to list no changed predictions.
            source: name of the file in which samples are numbered, or "".
        """
        old, new = to_float64(before), to_float64(after)
        finite = np.isfinite(old) & np.isfinite(new)
        with np.errstate(invalid="ignore"):
            difference = np.where(finite, np.abs(new - old), 0.0)
        self._largest = max(self._largest, float(difference.max()))
        lost = np.isfinite(old) & ~finite
        self._sums.update(total=difference.sum(), values=old.size, lost=lost.sum())
        self._shares = self._shares and bool(old.min() >= 0.0 and old.max() <= 1.0)
        if self._distribution:
            sums_to_one = self._shares and np.abs(old.sum(axis=-1) - 1.0) < 1e-2
            self._distribution = bool(np.all(sums_to_one))
        if labels is not None:
            is_error = labels.dtype.kind == "f"
            self._metric = "mean squared error" if is_error else "accuracy"
            if is_error:
                errors = [np.square(y - labels.reshape(y.shape)).sum() for y in (old, new)]
                self._sums.update(before=errors[0], after=errors[1])
        for rule in self._find_rules(before, labels):
            predicted = _predict(before, rule), _predict(after, rule)
            is_class = rule != VALUE or kind_of(before) != "float"
            counts = self._counts.setdefault(rule, _Counts(is_class))
            counts.add(*predicted, difference, labels, axis_names(old.ndim, source), rows)

    def _find_rules(self, before: Array, labels: Array | None) -> tuple[str, ...]:
        """Return one or two rules that may turn these outputs into predictions, such as argmax.

        Two rules are returned if only all data together can show which rule is right.
        """
        if kind_of(before) != "float":
            return (VALUE,)
        if labels is not None and labels.dtype.kind != "f":
            return (LARGEST,) if are_indices(labels, before) else (HALF, ZERO)
        if before.ndim > 1 and before.shape[-1] > 1:
            return (LARGEST,) if labels is None else (LARGEST, VALUE)
        return (HALF, VALUE) if labels is None else (VALUE,)

    @property
    def _rule(self) -> str:
        first, *others = self._counts
        holds = self._shares if first == HALF else self._distribution
        return others[0] if others and not holds else first

    @property
    def are_classes(self) -> bool:
        """Whether the predictions are classes; False if this is not certain.

        It is uncertain for several floats on the last axis without integer labels: the floats may
        be numbers, unless they are a probability distribution.
        """
        certain = self._rule != LARGEST or self._metric == "accuracy" or self._distribution
        return certain and self._counts[self._rule].are_classes

    def result(self) -> OutputChange:
        """Return the changed predictions and the metric over all batches."""
        counts, values = self._counts[self._rule], self._sums["values"]
        metrics = None
        if self._metric is not None:
            is_error = self._metric == "mean squared error"
            sums, size = (self._sums, values) if is_error else (counts.sums, counts.predictions)
            before, after = (
                Metric(self.output, self._metric, float(sums[name] / (size or 1)))
                for name in ("before", "after")
            )
            metrics = before, after
        pairs = sorted(counts.pairs.items(), key=lambda item: (-item[1], item[0]))
        return OutputChange(
            output=self.output,
            classes=counts.are_classes,
            predictions=counts.predictions,
            changed=counts.pairs.total(),
            fixed=int(counts.sums["fixed"]),
            broken=int(counts.sums["broken"]),
            mean=float(self._sums["total"] / values),
            values=int(values),
            largest=self._largest,
            largest_changes=tuple(counts.listed),
            class_changes=tuple(ClassChange(*pair, count) for pair, count in pairs),
            metrics=metrics,
            lost=int(self._sums["lost"]),
        )


class _Counts:
    """Counts of one output's predictions under one rule, such as "the class is the argmax".

    Args:
        are_classes: whether the predictions are classes, and not numbers.
    """

    def __init__(self, are_classes: bool) -> None:
        self.are_classes = are_classes
        self.predictions = 0
        self.sums: collections.Counter[str] = collections.Counter()
        self.pairs: collections.Counter[tuple[float, float]] = collections.Counter()
        self.listed: list[ChangedPrediction] = []

    def add(
        self,
        before: Array,
        after: Array,
        difference: Array,
        labels: Array | None,
        axes: Sequence[str],
        rows: Sequence[int],
    ) -> None:
        """Count the predictions of one batch that changed, became right or became wrong.

        Args:
            before: predictions, (rows, ...).
            after: predictions in the shape of `before`.
            difference: |after - before| of the output values.
            labels: as for `PredictionChanges.add`; float labels may have another shape.
            axes: names of the axes of `before`.
            rows: as for `PredictionChanges.add`.
        """
        known = None
        if labels is not None and labels.size == before.size:
            known = labels.reshape(before.shape)
        counted = np.ones(before.shape, bool)
        if known is not None and known.dtype.kind != "f":
            counted = known >= 0
            was, became = ((y == known) & counted for y in (before, after))
            fixed, broken = became & ~was, was & ~became
            self.sums.update(
                before=was.sum(), after=became.sum(), fixed=fixed.sum(), broken=broken.sum()
            )
        self.predictions += int(counted.sum())
        changed = (before != after) & counted
        if self.are_classes:
            pairs = np.stack([before[changed], after[changed]], axis=-1).astype(float)
            kinds, times = np.unique(pairs, axis=0, return_counts=True)
            self.pairs.update(dict(zip(map(tuple, kinds.tolist()), times.tolist(), strict=True)))
        if len(rows):
            size = difference if difference.ndim == before.ndim else difference.max(axis=-1)
            found, order = [], np.argsort(-size[changed], kind="stable")[:MAX_LISTED]
            for at in map(tuple, np.argwhere(changed)[order].tolist()):
                where = zip(axes, (rows[at[0]], *at[1:]), strict=False)
                label = None if known is None else float(known[at])
                values = float(before[at]), float(after[at]), float(size[at])
                found.append(ChangedPrediction(tuple(where), *values, label))
            self.listed = heapq.nsmallest(MAX_LISTED, self.listed + found, key=lambda c: -c.size)


def _predict(output: Array, rule: str) -> Array:
    if rule == VALUE:
        return output
    if rule == LARGEST:
        return np.asarray(output.argmax(axis=-1))
    return (output > float(rule)).astype(int)
