"""Compare a model's outputs with labels, and its predictions with the Keras model's."""

import math
from collections.abc import Mapping

import numpy as np

from keras_norm.export.compare.arrays import kind_of, to_float64
from keras_norm.export.results.artifact_result import Tally
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


def tally(labels: Arrays, outputs: Arrays, own: Arrays) -> tuple[Tally, ...]:
    """Compute the sum and count for the accuracy or squared error of every output with labels.

    Args:
        labels: see `read_labels`.
        outputs: arrays by output name, with a row for each row of the labels.
        own: the Keras model's outputs by name, which determine how classes are predicted.
    """
    return tuple(
        _tally(name, array, outputs[name], own[name])
        for name, array in labels.items()
        if name in outputs
    )


def classes(output: Array, own: Array, labels: Array | None) -> Array | None:
    """Return the predicted classes, or None for a float output that needs a threshold.

    Args:
        output: (rows, ...).
        own: the Keras model's output, in the shape of `output`.
        labels: integers; None to assume that the last axis of a float output holds classes if its
            size is above 1.
    """
    has_axis = output.shape[-1:] > (1,)
    if _is_class(labels, output) if labels is not None else has_axis and own.dtype.kind == "f":
        return np.asarray(output.argmax(axis=-1))
    return None if own.dtype.kind == "f" else output


def count_equal(labels: Arrays, outputs: Arrays, own: Arrays) -> tuple[Tally, ...]:
    """Count the predictions that equal the predictions of the Keras model.

    Integer labels define the prediction as they do for the accuracy, and labels below 0 are left
    out. Without integer labels an output predicts classes if it holds integers, if its last axis is
    a probability distribution (softmax), or if it is a single float between 0 and 1.

    Args:
        labels: see `read_labels`.
        outputs: arrays by output name, in the shapes of `own`.
        own: the Keras model's outputs by name, with a row for each row of the labels.
    """
    return tuple(
        _count_equal(name, labels.get(name), outputs[name], y)
        for name, y in own.items()
        if name in outputs and kind_of(y) != "text" and y.size
    )


def _count_equal(name: str, labels: Array | None, output: Array, own: Array) -> Tally:
    integers = None if labels is None or labels.dtype.kind == "f" else labels
    is_float = kind_of(own) == "float"
    if is_float:
        output, own = to_float64(output), to_float64(own)
    found, expected = (classes(y, own, integers) for y in (output, own))
    if found is not None:
        equal = (found == expected,) * 2
    else:
        equal = ((output > 0.5) == (own > 0.5), (output > 0.0) == (own > 0.0))
    counted = np.ones(equal[0].shape, bool)
    if integers is not None:
        counted = integers.reshape(counted.shape) >= 0
    total, signed = (float((same & counted).sum()) for same in equal)
    shares = _are_shares(own)
    if integers is None and is_float:
        signed = math.nan  # other floats predict numbers, not classes
        shares = _are_distributions(own) if found is not None else shares and labels is None
    return Tally(name, "equal predictions", float(counted.sum()), total, signed, shares)


def _are_shares(own: Array) -> bool:
    """Return whether all values lie between 0 and 1."""
    return bool(own.min() >= 0.0 and own.max() <= 1.0)


def _are_distributions(own: Array) -> bool:
    """Return whether the last axis holds probabilities whose sum is 1, as softmax returns them."""
    return _are_shares(own) and bool((np.abs(own.sum(axis=-1) - 1.0) < 1e-2).all())


def _tally(name: str, labels: Array, output: Array, own: Array) -> Tally:
    if labels.dtype.kind == "f":
        squared = np.square(to_float64(output) - labels.reshape(output.shape))
        total = float(squared.sum())
        return Tally(name, "mean squared error", float(squared.size), total, total, True)
    predicted = classes(output, own, labels)
    both = (output > 0.5, output > 0.0) if predicted is None else (predicted, predicted)
    labels = labels.reshape(both[0].shape)
    counted = labels >= 0  # labels below 0 mark padding, so they do not count
    total, signed = (float(((found == labels) & counted).sum()) for found in both)
    return Tally(name, "accuracy", float(counted.sum()), total, signed, _are_shares(own))


def _is_class(labels: Array, output: Array) -> bool:
    """Return whether a label is an index into the output's last axis."""
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
    if _is_class(labels, output):
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
