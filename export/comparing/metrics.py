"""What labels say: accuracy or squared error, beside the numeric error."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from keras_norm.export.comparing.properties import Arrays
from keras_norm.export.results import Metric


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels that fit a model's outputs, validated.

    Attributes:
        arrays: labels (samples, ...) by output name.
        predictions: by output name, from outputs to what integer labels are compared with.
    """

    arrays: Arrays
    predictions: Mapping[str, Callable[[np.ndarray], np.ndarray]]

    def metrics(self, outputs: Arrays, rows: np.ndarray) -> tuple[Metric, ...]:
        """The metric of every output that is there and has labels.

        Args:
            outputs: arrays (rows, ...) by output name.
            rows: index of each row's sample.
        """
        return tuple(
            self._metric(name, labels[rows], outputs[name])
            for name, labels in self.arrays.items()
            if name in outputs
        )

    def _metric(self, name: str, labels: np.ndarray, output: np.ndarray) -> Metric:
        mean = keras.metrics.Mean()
        if name in self.predictions:
            predicted = self.predictions[name](output)
            labels = labels.reshape(predicted.shape)
            # A label below 0 marks what is padding.
            mean.update_state(predicted == labels, sample_weight=labels >= 0)
            return Metric(name, "accuracy", float(mean.result()))
        mean.update_state(np.square(output - labels.reshape(output.shape)))
        return Metric(name, "mean squared error", float(mean.result()))


def read_labels(labels: Any, outputs: Arrays, count: int) -> Labels:
    """Validate labels against a model's outputs.

    Integer labels give an accuracy, and those below 0 (padding) are left out: of the largest output
    where a label stands for the outputs' last axis; else of each output, which equals its label
    where outputs are integers, and is compared with a threshold where they are floats: 0.5 for
    outputs between 0 and 1 and 0 for others. Float labels give the mean squared error.

    Args:
        labels: arrays (samples, ...) by output name, or one array for a model with one output.
        outputs: those of the model's outputs that have a row for each sample, by name.
        count: number of samples.

    Raises:
        ValueError: names, shapes, dtypes or classes that do not fit.
    """
    if not outputs:
        raise ValueError(
            "Labels need an output with a row for each sample, and the model has none. "
            "Give no labels."
        )
    names = ", ".join(repr(name) for name in outputs)
    if not isinstance(labels, Mapping):
        if len(outputs) != 1:
            raise ValueError(
                f"The model has {len(outputs)} outputs: give labels as a dict of arrays by name "
                f"({names}). Received: {type(labels).__name__}."
            )
        labels = {next(iter(outputs)): labels}
    if not labels or not set(labels) <= set(outputs):
        received = ", ".join(repr(name) for name in labels) or "nothing"
        raise ValueError(f"The labels' names must be outputs: {names}. Received: {received}.")
    arrays = {name: np.asarray(labels[name]) for name in labels}
    for name, array in arrays.items():
        _require_fit(name, array, outputs[name], count)
    predictions = {
        name: _prediction(name, array, outputs[name])
        for name, array in arrays.items()
        if array.dtype.kind != "f"
    }
    return Labels(arrays, predictions)


def _prediction(
    name: str, labels: np.ndarray, output: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """How outputs become what integer labels are compared with."""
    if _is_class(labels, output):
        return lambda values: values.argmax(axis=-1)
    if output.dtype.kind != "f":
        return np.asarray
    if labels.max() > 1:
        raise ValueError(
            f"Integer labels of output {name!r}, of which each stands for one float output, are 0 "
            f"or 1, or below 0 for padding. Received: {int(labels.max())}. Give float labels for "
            "the mean squared error."
        )
    threshold = 0.5 if output.min() >= 0.0 and output.max() <= 1.0 else 0.0
    return lambda values: values > threshold


def _is_class(labels: np.ndarray, output: np.ndarray) -> bool:
    """Whether a label is an index into the output's last axis."""
    return labels.ndim == output.ndim - 1 and output.shape[-1] > 1


def _require_fit(name: str, labels: np.ndarray, output: np.ndarray, count: int) -> None:
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"Labels of output {name!r} are numbers. Received: {labels.dtype}.")
    if len(labels) != count:
        raise ValueError(
            f"Labels of output {name!r} need one row for each of the {count} samples. "
            f"Received shape {labels.shape}."
        )
    shape = output.shape[1:]
    fitting = [shape, shape[:-1]] if labels.dtype.kind != "f" or shape[-1:] == (1,) else [shape]
    if labels.shape[1:] not in fitting:
        wanted = " or ".join(str((count, *s)) for s in fitting)
        raise ValueError(
            f"Labels of output {name!r} have the shape {wanted}. Received {labels.shape}."
        )
    if _is_class(labels, output) and labels.dtype.kind != "f" and labels.max() >= shape[-1]:
        raise ValueError(
            f"Labels of output {name!r} are classes below {shape[-1]}. "
            f"Received: {int(labels.max())}."
        )
