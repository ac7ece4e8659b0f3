"""Validate that the user's labels fit the outputs of a model."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from keras_norm.export.compare.arrays import kind_of
from keras_norm.typing import Array, Arrays

# The labels of each output: an array with one row for each sample. The key is the name of the
# output. If the user gave no names, the key is the number of the output: 0, 1, ...
Labels: TypeAlias = Mapping[str | int, Array]


def read_labels(labels: Labels, outputs: Arrays) -> Arrays:
    """Validate that the user's labels fit a model's outputs, and return them by output name.

    The dtype of the labels decides the metric:

    - Integer labels: accuracy. Labels below 0 mark padding and are left out.
      - Labels without the outputs' last axis are compared with the argmax over that axis, if its
        size is above 1.
      - Labels shaped as integer outputs are compared with the outputs.
      - Labels shaped as float outputs are compared with output > threshold. The threshold is 0.5
        for outputs between 0 and 1, and 0 for any other outputs.
    - Float labels: mean squared error.

    Args:
        labels: arrays (samples, ...).
        outputs: the model's outputs with a row for each row of a batch, by name.

    Raises:
        ValueError: names, shapes, dtypes or classes that do not fit, NaN or infinity.
    """
    outputs = {name: y for name, y in outputs.items() if kind_of(y) != "text"}
    if not outputs:
        raise ValueError(
            "Labels need an output of numbers with a row for each sample. The model has no such "
            "output. Give no labels."
        )
    names = ", ".join(repr(name) for name in outputs)
    if 0 in labels:
        if len(labels) != len(outputs):
            raise ValueError(
                f"The model has {len(outputs)} outputs: give labels by name ({names}), as a dict "
                f"of arrays or a .npz file. Received: {len(labels)} array(s)."
            )
        labels = dict(zip(outputs, labels.values(), strict=True))
    if not labels or not set(labels) <= set(outputs):
        received = ", ".join(map(repr, labels)) or "nothing"
        raise ValueError(
            f"The names of the labels must be names of outputs: {names}. Received: {received}."
        )
    found = {str(name): array for name, array in labels.items()}
    for name, array in found.items():
        _require_fit(name, array, outputs[name])
    return found


def are_indices(labels: Array, output: Array) -> bool:
    """Return whether each label is the index of a class on the output's last axis."""
    return labels.ndim == output.ndim - 1 and output.shape[-1] > 1


def _require_fit(name: str, labels: Array, output: Array) -> None:
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"Labels of output {name!r} must be numbers. Received: {labels.dtype}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"Labels of output {name!r} must be finite. Received NaN or infinity.")
    shape, whole = output.shape[1:], labels.dtype.kind != "f"
    fitting = [shape, shape[:-1]] if whole or shape[-1:] == (1,) else [shape]
    if labels.shape[1:] not in fitting:
        wanted = " or ".join(str((len(labels), *s)) for s in fitting)
        raise ValueError(
            f"Labels of output {name!r} must have the shape {wanted}. Received {labels.shape}."
        )
    if not whole:
        return
    if are_indices(labels, output):
        if labels.max() >= shape[-1]:
            raise ValueError(
                f"Labels of output {name!r} must be class numbers below {shape[-1]}. "
                f"Received: {int(labels.max())}."
            )
    elif output.dtype.kind == "f" and labels.max() > 1:
        raise ValueError(
            f"Integer labels of the float output {name!r} must be 0 or 1, or below 0 for padding. "
            f"Received: {int(labels.max())}. Give float labels to compute the mean squared error."
        )
