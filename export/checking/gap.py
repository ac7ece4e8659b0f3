"""The train/inference gap: how far training mode is from inference mode on the same data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_norm.clone import measuring_clone
from keras_norm.export import signature
from keras_norm.export.errors import one_line
from keras_norm.export.results import (
    LayerStatistics,
    Metric,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.walk import batch_norms, named_layers

# Two modes that compute the same differ by less than this, relative to the largest output.
ROUNDING = 1e-5


def measure_gap(
    model: Any,
    inputs: Mapping[str, np.ndarray],
    max_gap: float | None = None,
    metrics: Callable[[dict[str, np.ndarray]], Sequence[Metric]] = lambda outputs: (),
) -> TrainInferenceGap:
    """Run the same data with training=True and training=False and compare, dropout off.

    Everything happens on a clone; the model is not touched.

    Args:
        model: a built Keras model.
        inputs: arrays (batch, ...) by input name.
        max_gap: largest difference of any output that passes, or None.
        metrics: outputs by name -> their metrics.

    Returns:
        The gap. A model that cannot be rebuilt from its config gives "not measured" and says why.
    """
    # A clone may name its inputs and outputs anew; their order stays.
    ordered = [inputs[name] for name in signature.input_specs(model)]
    try:
        clone = measuring_clone(model)
        inference, training = (call_clone(clone, ordered, training) for training in (False, True))
    # Whatever a layer's own code raises in a copy, or in training mode, the files can be compared.
    except Exception as error:
        return TrainInferenceGap("not measured", one_line(error), max_gap=max_gap)
    names = signature.output_names(model)
    outputs = tuple(map(_output_gap, names, inference, training))
    pairs = zip(batch_norms(model), batch_norms(clone), strict=True)
    layers = tuple(
        layer_statistics(path, layer, measured) for (path, layer), (_, measured) in pairs
    )
    verdict, reason = _verdict(outputs, layers)
    pair = (metrics(dict(zip(names, values, strict=True))) for values in (inference, training))
    gaps = tuple(
        MetricGap(own.output, own.name, own.value, trained.value)
        for own, trained in zip(*pair, strict=True)
    )
    return TrainInferenceGap(verdict, reason, outputs, layers, max_gap, gaps)


def moving_statistics(layer: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moving mean and variance (rows, features), and which rows training reached (rows,).

    A layer that counts no updates has been reached when its statistics are not those that every
    BatchNorm starts with.

    Args:
        layer: a batch normalization; statistics of shape (features,) are one row.
    """
    mean, variance = (
        np.atleast_2d(as_array(v)) for v in (layer.moving_mean, layer.moving_variance)
    )
    count = getattr(layer, "update_count", None)
    if count is None:
        reached = np.array([not (np.all(mean == 0.0) and np.all(variance == 1.0))])
    else:
        reached = np.atleast_1d(as_array(count)) > 0
    return mean, variance, reached


def layer_statistics(path: str, layer: Any, measured: Any) -> LayerStatistics:
    """Compare a layer's moving statistics with the batch statistics in its measuring clone.

    Args:
        path: path of the layer.
        layer: the layer, as trained.
        measured: the same layer of `measuring_clone`, after one call with training=True.
    """
    mean, variance, trained = moving_statistics(layer)
    batch_mean, batch_variance, _ = moving_statistics(measured)
    seen = _updated(layer, measured)
    note = _note(layer, trained, seen)
    compared = seen if len(seen) == 1 else trained & seen
    if not compared.any():
        rows: tuple[float | None, ...] = (None,) * len(mean)
        return LayerStatistics(
            path, None, None, rows, int(trained.sum()), int(seen.sum()), note, *_updates(layer)
        )
    updates, started = _updates(layer)
    distance = (np.abs(batch_mean - mean) / np.sqrt(variance + layer.epsilon)).mean(axis=1)
    ratio = np.abs(np.log((batch_variance + layer.epsilon) / (variance + layer.epsilon)))
    return LayerStatistics(
        path=path,
        distance=float(distance[compared].mean()),
        log_ratio=float(ratio[compared].mean()),
        by_row=tuple(float(d) if c else None for d, c in zip(distance, compared, strict=True)),
        trained_rows=int(trained.sum()),
        data_rows=int(seen.sum()),
        note=note,
        updates=updates,
        started=started,
    )


def _updates(layer: Any) -> tuple[tuple[int, ...] | None, float | None]:
    """The updates of each row, and the largest share that the starting values still have."""
    count = getattr(layer, "update_count", None)
    if count is None:
        return None, None
    updates = tuple(int(n) for n in np.atleast_1d(as_array(count)))
    fewest = min((n for n in updates if n), default=0)
    averaged = layer.momentum is None or layer.debias
    return updates, 0.0 if averaged and fewest else float((layer.momentum or 0.0) ** fewest)


def _updated(layer: Any, measured: Any) -> np.ndarray:
    """Which rows one call updated; a layer that counts nothing has one row, and it was updated."""
    before, after = (getattr(item, "update_count", None) for item in (layer, measured))
    if before is None or after is None:
        return np.array([True])
    return np.atleast_1d(as_array(after) > as_array(before))


def _note(layer: Any, trained: np.ndarray, seen: np.ndarray) -> str:
    if not trained.any():
        return "the moving statistics are still those it started with"
    if not layer.trainable:
        return "frozen: training uses the moving statistics too"
    beyond = int((seen & ~trained).sum())
    if beyond:
        return f"the data reach {beyond} timesteps that training never reached"
    return ""


def _verdict(
    outputs: tuple[OutputGap, ...], layers: tuple[LayerStatistics, ...]
) -> tuple[str, str]:
    large = [layer for layer in layers if layer.large]
    if large:
        far = max(large, key=lambda layer: layer.distance or 0.0)
        return "large", (
            f"{len(large)} of {len(layers)} batch normalizations; {far.path}: the means are "
            f"{far.distance:.2g} standard deviations away, the variances differ by a factor of "
            f"{far.factor:.2g}"
        )
    worst = max(outputs, key=lambda gap: gap.worst)
    if not layers and worst.worst > ROUNDING * max(worst.scale, 1.0):
        return "large", (
            f"output {worst.output!r} differs by {worst.worst:.2g}, and the model has no batch "
            "normalization: another layer acts differently in training"
        )
    if not layers:
        return "ok", "no batch normalization: training and inference compute the same"
    unmeasured = [layer for layer in layers if layer.distance is None]
    if unmeasured:
        return "not measured", f"{unmeasured[0].path}: {unmeasured[0].note or 'no row to compare'}"
    far = max(layers, key=lambda layer: layer.distance or 0.0)
    return "ok", (
        f"the moving statistics are those of the data, to {far.distance:.2g} standard deviations "
        f"(in {far.path})"
    )


def _output_gap(name: str, inference: np.ndarray, training: np.ndarray) -> OutputGap:
    difference = np.abs(training - inference)
    return OutputGap(
        name, float(difference.max()), float(difference.mean()), float(np.abs(inference).max())
    )


def call_clone(clone: Any, inputs: Sequence[np.ndarray], training: bool) -> list[np.ndarray]:
    """The outputs of a clone, whose inputs may have new names: they are given in order."""
    for _, layer in named_layers(clone):
        if getattr(layer, "stateful", False):
            layer.reset_state()
    named = dict(zip(signature.input_specs(clone), inputs, strict=True))
    return [as_array(value) for value in signature.call(clone, named, training=training).values()]


def as_array(tensor: Any) -> np.ndarray:
    """A tensor of any dtype in float64."""
    return ops.convert_to_numpy(tensor).astype(np.float64)
