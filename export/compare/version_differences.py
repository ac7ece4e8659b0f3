"""Compare the outputs of two versions of a model, with one result for every output."""

from collections.abc import Sequence

import numpy as np

from keras_norm.export.compare.arrays import axis_names, to_float64
from keras_norm.export.compare.metrics import classes, tally
from keras_norm.export.results.version_comparison import (
    MAX_LISTED,
    ChangedPrediction,
    ClassChange,
    OutputChange,
)
from keras_norm.typing import Array, Arrays


def changes(
    before: Arrays,
    after: Arrays,
    labels: Arrays,
    thresholds: dict[str, float | None],
    rows: Sequence[int],
    source: str = "",
) -> tuple[OutputChange, ...]:
    """Compare the predictions of two versions of a model for some samples.

    Args:
        before: the old version's outputs, (rows, ...) by name.
        after: the new version's outputs, with the names and shapes of `before`.
        labels: labels by output name (`keras_norm.export.compare.metrics.read_labels`).
        thresholds: results of `threshold`, by output name.
        rows: sample number of each row.
        source: name of the file in which samples are numbered, or "".
    """
    return tuple(
        _compare_output(name, old, after[name], labels.get(name), thresholds[name], rows, source)
        for name, old in before.items()
    )


def threshold(output: Array, labels: Array | None) -> float | None:
    """Return the threshold of a binary classifier: outputs above the threshold predict class 1.

    Args:
        output: the old version's output.
        labels: the output's labels, or None.

    Returns:
        0.5 for an output between 0 and 1; 0 for any other output with integer labels. None if the
        output predicts numbers, or if it has one value for each class.
    """
    if labels is not None and labels.dtype.kind == "f":
        return None
    if classes(output, output, labels) is not None:
        return None
    if output.min() >= 0.0 and output.max() <= 1.0:
        return 0.5
    return None if labels is None else 0.0


def _compare_output(
    name: str,
    old: Array,
    new: Array,
    labels: Array | None,
    above: float | None,
    rows: Sequence[int],
    source: str,
) -> OutputChange:
    finite = [np.isfinite(to_float64(y)) for y in (old, new)]
    difference = np.where(finite[0] & finite[1], np.abs(to_float64(new) - to_float64(old)), 0.0)
    numbers = labels is not None and labels.dtype.kind == "f"
    predicted = [old, new]
    is_class = not numbers
    if above is not None:
        predicted = [(y > above).astype(int) for y in (old, new)]
    elif is_class:
        found = [classes(y, old, labels) for y in (old, new)]
        predicted = [y for y in found if y is not None] or predicted
        is_class = found[0] is not None
    size = difference if predicted[0].ndim == old.ndim else difference.max(axis=-1)
    known = None if labels is None else labels.reshape(predicted[0].shape)
    counts = np.ones(size.shape, bool) if known is None or numbers else known >= 0
    changed = (predicted[0] != predicted[1]) & counts
    was, became = (
        np.zeros_like(counts) if known is None or numbers else (p == known) & counts
        for p in predicted
    )
    pairs = np.stack([p[changed] for p in predicted], axis=-1).astype(float)
    kinds, times = np.unique(pairs, axis=0, return_counts=True)
    if not is_class:
        kinds, times = kinds[:0], times[:0]
    tallies = [
        tally({name: labels}, {name: y}, {name: old})[0] if labels is not None else None
        for y in (old, new)
    ]
    return OutputChange(
        output=name,
        classes=is_class,
        predictions=int(counts.sum()),
        changed=int(changed.sum()) if is_class else 0,
        fixed=int((became & ~was).sum()),
        broken=int((was & ~became).sum()),
        total=float(difference.sum()),
        values=difference.size,
        largest=float(difference.max(initial=0.0)),
        largest_changes=_largest_changes(
            predicted, size, known, changed, axis_names(old.ndim, source), rows
        ),
        class_changes=tuple(
            ClassChange(a, b, int(n)) for (a, b), n in zip(kinds.tolist(), times, strict=True)
        ),
        before=tallies[0],
        after=tallies[1],
        lost=int((finite[0] & ~finite[1]).sum()),
    )


def _largest_changes(
    predicted: list[Array],
    size: Array,
    labels: Array | None,
    changed: Array,
    axes: tuple[str, ...],
    rows: Sequence[int],
) -> tuple[ChangedPrediction, ...]:
    """Return the predictions that changed most, the largest change first, at most `MAX_LISTED`."""
    positions = np.argwhere(changed)
    order = np.argsort(-size[changed], kind="stable")[:MAX_LISTED]
    found = []
    for at in map(tuple, positions[order].tolist()):
        where = zip(axes, (rows[at[0]], *at[1:]), strict=False)
        old, new = (float(p[at]) for p in predicted)
        label = None if labels is None else float(labels[at])
        found.append(ChangedPrediction(tuple(where), old, new, float(size[at]), label))
    return tuple(found)
