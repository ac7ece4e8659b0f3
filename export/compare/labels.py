"""Validate the user's labels."""

from collections.abc import Mapping

import numpy as np

from keras_norm.export.compare.arrays import kind_of
from keras_norm.typing import Array, Arrays, TensorLike


def read_labels(labels: TensorLike, outputs: Arrays, count: int) -> Arrays:
    """Validate that the user's labels fit a model's outputs, and return them as arrays.

    The dtype of the labels decides the metric:

    - Integer labels: accuracy. Labels below 0 mark padding and are left out.
      - Labels without the outputs' last axis are compared with the argmax over that axis, if its
        size is above 1.
      - Labels shaped as integer outputs are compared with the outputs.
      - Labels shaped as float outputs are compared with output > threshold. The threshold is 0.5
        for outputs between 0 and 1, and 0 for any other outputs.
    - Float labels: mean squared error.

    Args:
        labels: arrays (samples, ...) by output name; or a tuple of arrays in the outputs' order; or
            one array for a model with one output.
        outputs: the model's outputs with a row for each sample, by name.
        count: number of samples.

    Returns:
        The labels by output name.

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
    if isinstance(labels, tuple) and len(labels) == len(outputs):
        labels = dict(zip(outputs, labels, strict=True))
    if not isinstance(labels, Mapping):
        if len(outputs) != 1:
            raise ValueError(
                f"The model has {len(outputs)} outputs: give labels by name ({names}), as a dict "
                f"of arrays or a .npz file. Received: {type(labels).__name__}."
            )
        labels = {next(iter(outputs)): labels}
    if not labels or not set(labels) <= set(outputs):
        received = ", ".join(repr(name) for name in labels) or "nothing"
        raise ValueError(
            f"The names of the labels must be names of outputs: {names}. Received: {received}."
        )
    arrays = {name: np.asarray(labels[name]) for name in labels}
    for name, array in arrays.items():
        _require_fit(name, array, outputs[name], count)
    return arrays


def are_indices(labels: Array, output: Array) -> bool:
    """Return whether each label is an index into the output's last axis, which holds classes."""
    return labels.ndim == output.ndim - 1 and output.shape[-1] > 1


def _require_fit(name: str, labels: Array, output: Array, count: int) -> None:
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"Labels of output {name!r} must be numbers. Received: {labels.dtype}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"Labels of output {name!r} must be finite. Received NaN or infinity.")
    if labels.shape[:1] != (count,):
        raise ValueError(
            f"Labels of output {name!r} need one row for each of the {count} samples. "
            f"Received shape {labels.shape}."
        )
    shape, whole = output.shape[1:], labels.dtype.kind != "f"
    fitting = [shape, shape[:-1]] if whole or shape[-1:] == (1,) else [shape]
    if labels.shape[1:] not in fitting:
        wanted = " or ".join(str((count, *s)) for s in fitting)
        raise ValueError(
            f"Labels of output {name!r} must have the shape {wanted}. Received {labels.shape}."
        )
    if not whole:
        return
    if are_indices(labels, output):
        if labels.max() >= shape[-1]:
            raise ValueError(
                f"Labels of output {name!r} must be classes below {shape[-1]}. "
                f"Received: {int(labels.max())}."
            )
    elif output.dtype.kind == "f" and labels.max() > 1:
        raise ValueError(
            f"Integer labels of the float output {name!r} must be 0 or 1, or below 0 for padding. "
            f"Received: {int(labels.max())}. Give float labels for the mean squared error."
        )
