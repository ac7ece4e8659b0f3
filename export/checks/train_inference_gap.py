"""Measure the train/inference gap: how training mode changes the outputs of a model."""

import dataclasses
from collections.abc import Sequence

import keras
import numpy as np

from keras_norm.export.checks.gap_findings import FROZEN, advise_on_gap, describe_gap
from keras_norm.export.checks.model_clone import ModelClone
from keras_norm.export.compare.arrays import absolute_difference, kind_of, to_float64
from keras_norm.export.compare.metrics import tally
from keras_norm.export.compare.tolerance import TOLERANCES
from keras_norm.export.errors import one_line
from keras_norm.export.model.tolerance_factors import model_precision
from keras_norm.export.results.check_result import (
    Finding,
    LayerStatistics,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.export.results.measurements import BatchStatistics, GapMeasurements, ModeDifference
from keras_norm.export.results.output_comparison import largest_known
from keras_norm.named_layers import batch_norms
from keras_norm.recalibration.statistics_accumulator import StatisticsAccumulator
from keras_norm.typing import Array, Arrays


class GapMeter:
    """Run batches in training and inference mode on a clone of the model, with dropout off.

    Args:
        clone: the clone of the Keras model.
    """

    def __init__(self, clone: ModelClone) -> None:
        self.clone = clone
        self.error: str | None = None
        try:
            self.statistics = [StatisticsAccumulator(norm) for _, norm in batch_norms(clone.model)]
        # Catch every error, because a layer's code may raise any error when the model is cloned.
        # The check then goes on with the exported files.
        except Exception as error:
            self.error = one_line(error)

    def __call__(self, inputs: Arrays, labels: Arrays | None = None) -> GapMeasurements:
        """Run one batch with training=True and training=False, and compare the outputs.

        Args:
            inputs: arrays (batch, ...) by input name.
            labels: labels by output name (`keras_norm.export.compare.metrics.read_labels`), or
                None. If rows were added to reach a static batch size, the labels of the first rows.

        Returns:
            The measurements. If the model cannot be rebuilt from its config, or raises in training
            mode, there are none and `error` has the reason.
        """
        if self.error is not None:
            return GapMeasurements(error=self.error)
        try:
            self.clone.restore()
            for statistics in self.statistics:
                statistics.reset()
            inference, training = (self.clone(inputs, mode) for mode in (False, True))
        except Exception as error:
            self.error = one_line(error)
            return GapMeasurements(error=self.error)
        rows, labels = len(next(iter(inputs.values()))), labels or {}
        labeled_inference, labeled_training = (
            {name: outputs[name][: len(y)] for name, y in labels.items()}
            for outputs in (inference, training)
        )
        return GapMeasurements(
            tuple(
                _mode_difference(n, rows, y, training[n])
                for n, y in inference.items()
                if kind_of(y) != "text"
            ),
            tuple(_batch_statistics(k, found) for k, found in enumerate(self.statistics)),
            tally(labels, labeled_inference, labeled_inference),
            tally(labels, labeled_training, labeled_inference),
        )


def judge_gap(
    model: keras.Model,
    found: GapMeasurements,
    samples: int,
    length: int | None = None,
    max_gap: float | None = None,
) -> tuple[TrainInferenceGap, tuple[Finding, ...]]:
    """Compute and judge the train/inference gap from the measurements on all data.

    Every batch runs in training mode on its own, as in training. The gap of an output is the
    largest difference, and the mean difference, over all elements of all batches. A batch with
    fewer than half the rows of the largest batch is left out: its statistics are too noisy. The
    moving statistics are compared with the statistics of all data,

    ::

        mean = sum of n_b mean_b / N        variance = sum of n_b (var_b + (mean_b - mean)^2) / N

    where batch b has n_b of the N positions. These are the statistics of one batch of all samples,
    if the inputs of the layer do not depend on the batch statistics of other layers.

    Args:
        model: the Keras model.
        found: the merged results of `GapMeter` on all parts of the data.
        samples: number of samples in the data.
        length: number of timesteps of the data; None without a dynamic time dimension, or if the
            lengths differ.
        max_gap: largest difference of any output that passes, or None.

    Returns:
        (the gap, the advice on it). The verdict is "not measured", with the reason, if a part could
        not be measured.
    """
    rounding = TOLERANCES[model_precision(model, {})]
    error = found.error or ("" if found.outputs else "the model has no outputs of numbers")
    if error:
        gap = TrainInferenceGap("not measured", error, max_gap=max_gap)
        return gap, advise_on_gap(gap, length, rounding)
    most = max(part.rows for part in found.outputs)
    outputs: dict[str, list[ModeDifference]] = {}
    for part in found.outputs:
        if 2 * part.rows >= most:
            outputs.setdefault(part.output, []).append(part)
    gaps = tuple(_output_gap(name, parts) for name, parts in outputs.items())
    norms = batch_norms(model)
    layers = tuple(_layer_statistics(*norms[data.index], data) for data in found.layers)
    metrics = tuple(
        MetricGap(inference.output, inference.name, inference.metric.value, training.metric.value)
        for inference, training in zip(found.inference, found.training, strict=True)
    )
    gap = TrainInferenceGap("", "", gaps, layers, max_gap, metrics)
    advice = advise_on_gap(gap, length, rounding)
    verdict, reason = describe_gap(gap, advice, samples)
    return dataclasses.replace(gap, verdict=verdict, reason=reason), advice


def moving_statistics(layer: keras.layers.Layer) -> tuple[Array, Array, Array]:
    """Return a layer's moving mean, moving variance, and a boolean mask of the rows with updates.

    The shapes are (rows, features), (rows, features) and (rows,). Per-timestep statistics have one
    row for each timestep.

    A layer that does not count its updates counts as updated if its statistics differ from the
    initial values, mean 0 and variance 1.

    Args:
        layer: a batch normalization; statistics of shape (features,) are one row.
    """
    mean, variance = (
        np.atleast_2d(to_float64(v)) for v in (layer.moving_mean, layer.moving_variance)
    )
    count = getattr(layer, "update_count", None)
    if count is None:
        reached = np.array([not (np.all(mean == 0.0) and np.all(variance == 1.0))])
    else:
        reached = np.atleast_1d(to_float64(count)) > 0
    return mean, variance, reached


def _layer_statistics(
    path: str, layer: keras.layers.Layer, data: BatchStatistics
) -> LayerStatistics:
    """Compare the moving statistics of a layer with the statistics of all batches."""
    mean, variance, trained = moving_statistics(layer)
    reached = data.positions[:, 0] > 0
    note = _note(layer, trained, reached)
    compared = reached if len(reached) == 1 else trained & reached
    updates, initial_share = _count_updates(layer)
    known = (int(trained.sum()), int(reached.sum()), note, updates, initial_share)
    if not compared.any():
        return LayerStatistics(path, None, None, (None,) * len(mean), *known)
    distance = (np.abs(data.mean - mean) / np.sqrt(variance + layer.epsilon)).mean(axis=1)
    ratio = np.abs(np.log((data.variance + layer.epsilon) / (variance + layer.epsilon)))
    return LayerStatistics(
        path,
        _round_to_float32(distance[compared].mean()),
        _round_to_float32(ratio[compared].mean()),
        tuple(_round_to_float32(d) if c else None for d, c in zip(distance, compared, strict=True)),
        *known,
    )


def _batch_statistics(index: int, found: StatisticsAccumulator) -> BatchStatistics:
    """Return the mean and the variance of one batch in a batch normalization layer."""
    mean, variance = (np.atleast_2d(to_float64(s)) for s in (found.mean, found.variance))
    return BatchStatistics(index, to_float64(found.count).reshape(-1, 1), mean, variance)


def _round_to_float32(value: float) -> float:
    """Round a sum or mean to float32, so that it does not depend on the order of addition."""
    return float(np.float32(value))


def _count_updates(layer: keras.layers.Layer) -> tuple[tuple[int, ...] | None, float | None]:
    """Return how often moving statistics were updated, and the weight of their initial value.

    Each row of the statistics (each timestep) has its own number of updates. The weight is the
    largest weight of the initial value in any row.
    """
    count = getattr(layer, "update_count", None)
    if count is None:
        return None, None
    updates = tuple(int(n) for n in np.atleast_1d(to_float64(count)))
    fewest = min((n for n in updates if n), default=0)
    averaged = layer.momentum is None or layer.debias
    return updates, 0.0 if averaged and fewest else float((layer.momentum or 0.0) ** fewest)


def _note(layer: keras.layers.Layer, trained: Array, reached: Array) -> str:
    if not layer.trainable:
        return FROZEN
    if not trained.any():
        return "the moving statistics have their initial values"
    beyond = int((reached & ~trained).sum())
    if beyond:
        return f"the data reach {beyond} timesteps that training never reached"
    return ""


def _mode_difference(name: str, rows: int, inference: Array, training: Array) -> ModeDifference:
    inference, training = to_float64(inference), to_float64(training)
    difference = absolute_difference(inference, training)
    sums = float(difference.max()), float(difference.sum()), difference.size
    return ModeDifference(name, rows, *sums, float(np.abs(inference).max()))


def _output_gap(name: str, parts: Sequence[ModeDifference]) -> OutputGap:
    return OutputGap(
        name,
        largest_known(part.worst for part in parts) or 0.0,
        _round_to_float32(sum(part.total for part in parts) / sum(part.count for part in parts)),
        max(part.scale for part in parts),
    )
