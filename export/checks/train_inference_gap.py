"""Measure the difference of a model's outputs between training mode and inference mode."""

import dataclasses
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from keras_norm.clone import clone_for_statistics
from keras_norm.export import signature
from keras_norm.export.checks.gap_findings import FROZEN, advise_on_gap, describe_gap
from keras_norm.export.compare.arrays import absolute_difference, kind_of, to_float64, to_numpy
from keras_norm.export.compare.prediction_changes import PredictionChanges
from keras_norm.export.compare.tolerance import TOLERANCES
from keras_norm.export.errors import one_line
from keras_norm.export.model.tolerance_factors import model_precision
from keras_norm.export.results.check_result import Finding
from keras_norm.export.results.gap_result import (
    LayerStatistics,
    MetricGap,
    OutputGap,
    TrainInferenceGap,
)
from keras_norm.named_layers import batch_norms, named_layers
from keras_norm.recalibration.statistics_accumulator import StatisticsAccumulator
from keras_norm.typing import Array, Arrays


class GapMeter:
    """Measure how the outputs in training mode, with dropout off, differ from inference mode.

    The batches run on a clone, so the model itself does not change. Every batch runs in training
    mode on its own, as in training.
    The gap of an output is the largest difference, and the mean difference, over all elements of
    all batches. A batch with fewer than half the rows of the largest batch is left out: its
    statistics are too noisy. The moving statistics are compared with the statistics of all data,

    ::

        mean = sum of n_b mean_b / N        variance = sum of n_b (var_b + (mean_b - mean)^2) / N

    where batch b has n_b of the N positions. These are the statistics of one batch of all samples,
    if the inputs of the layer do not depend on the batch statistics of other layers.

    Args:
        model: a functional or Sequential model.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = model
        self._error: str | None = None
        # The keys of both dicts are (output name, number of rows in the batch). A value of
        # `_largest` is [largest difference, largest |output| in inference mode]. A value of `_sums`
        # is [sum of the differences, number of elements].
        self._largest: dict[tuple[str, int], Array] = {}
        self._sums: dict[tuple[str, int], Array] = {}
        self._metrics: dict[str, PredictionChanges] = {}
        try:
            self._clone = clone_for_statistics(model)
            norms, variables = batch_norms(self._clone), self._clone.non_trainable_variables
            self._statistics = [StatisticsAccumulator(norm) for _, norm in norms]
            # (variable, value) pairs of variables that training mode changes, such as moving means.
            self._state = [(v, ops.convert_to_numpy(v)) for v in variables]
        # Catch every error: a user's layer may raise any error when the model is copied. The check
        # then goes on with the exported files.
        except Exception as error:
            self._error = one_line(error)

    def add(self, inputs: Arrays, labels: Arrays | None = None) -> None:
        """Run one batch with training=True and training=False, and compare the outputs.

        Args:
            inputs: arrays (batch, ...) by input name.
            labels: labels by output name (`keras_norm.export.compare.labels.read_labels`), or None.
                If rows were added to reach a static batch size, the labels of the first rows.
        """
        if self._error is not None:
            return
        try:
            for variable, value in self._state:
                variable.assign(value)
            inference, training = (self._run(inputs, mode) for mode in (False, True))
        except Exception as error:
            self._error = one_line(error)
            return
        rows = len(next(iter(inputs.values())))
        for name, y in inference.items():
            if kind_of(y) != "text":
                key, difference = (name, rows), absolute_difference(y, training[name])
                largest = np.array([difference.max(), np.abs(to_float64(y)).max()])
                self._largest[key] = np.maximum(self._largest.get(key, largest), largest)
                sums = np.array([difference.sum(), difference.size])
                self._sums[key] = self._sums.get(key, 0.0) + sums
        for name, y in (labels or {}).items():
            before, after = (outputs[name][: len(y)] for outputs in (inference, training))
            self._metrics.setdefault(name, PredictionChanges(name)).add(before, after, y)

    def _run(self, inputs: Arrays, training: bool) -> Arrays:
        """Run the copy of the model in training or inference mode; return outputs by name."""
        for _, layer in named_layers(self._clone):
            if getattr(layer, "stateful", False):
                layer.reset_state()
        # The inputs and outputs of the copy have the same order as in the original model, but may
        # have other names.
        ordered = [inputs[name] for name in signature.input_specs(self.model)]
        named = dict(zip(signature.input_specs(self._clone), ordered, strict=True))
        outputs = signature.call(self._clone, named, training=training).values()
        values = map(to_numpy, map(ops.convert_to_numpy, outputs))
        return dict(zip(signature.output_names(self.model), values, strict=True))

    def judge(
        self, samples: int, length: int | None = None, max_gap: float | None = None
    ) -> tuple[TrainInferenceGap, tuple[Finding, ...]]:
        """Return the difference between training and inference mode on all data, and advice.

        Args:
            samples: number of samples in the data.
            length: number of timesteps of the data; None without a dynamic time dimension, or if
                the lengths differ.
            max_gap: largest difference of any output that passes, or None.

        Returns:
            (the gap, the advice on it). The verdict is "not measured", with the reason, if the
            model cannot be rebuilt from its config, or raised an error in training mode.
        """
        rounding = TOLERANCES[model_precision(self.model, {})]
        if self._error is not None or not self._sums:
            error = self._error or "the model has no outputs of numbers"
            gap = TrainInferenceGap("not measured", error, max_gap=max_gap)
            return gap, advise_on_gap(gap, length, rounding)
        norms = zip(batch_norms(self.model), self._statistics, strict=True)
        layers = tuple(_layer_statistics(path, layer, found) for (path, layer), found in norms)
        pairs = (changes.result().metrics for changes in self._metrics.values())
        metrics = tuple(
            MetricGap(inference.output, inference.name, inference.value, training.value)
            for inference, training in filter(None, pairs)
        )
        gap = TrainInferenceGap("", "", tuple(self._output_gaps()), layers, max_gap, metrics)
        advice = advise_on_gap(gap, length, rounding)
        verdict, reason = describe_gap(gap, advice, samples)
        return dataclasses.replace(gap, verdict=verdict, reason=reason), advice

    def _output_gaps(self) -> Iterator[OutputGap]:
        most = max(rows for _, rows in self._sums)
        for output in dict.fromkeys(name for name, _ in self._sums):
            keys = [key for key in self._sums if key[0] == output and 2 * key[1] >= most]
            worst, scale = np.max([self._largest[key] for key in keys], axis=0).tolist()
            total, count = np.sum([self._sums[key] for key in keys], axis=0).tolist()
            yield OutputGap(output, worst, total / count, scale)


def moving_statistics(layer: keras.layers.Layer) -> tuple[Array, Array, Array]:
    """Return a BatchNorm's moving mean, moving variance, and whether training updated them.

    The shapes are (rows, features), (rows, features) and (rows,). Per-timestep statistics have one
    row for each timestep. The third array is True for a row that training updated.

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
    path: str, layer: keras.layers.Layer, data: StatisticsAccumulator
) -> LayerStatistics:
    """Compare the moving statistics of a BatchNorm with the statistics of all batches."""
    mean, variance, trained = moving_statistics(layer)
    data_mean, data_variance = (np.atleast_2d(to_float64(s)) for s in (data.mean, data.variance))
    reached = np.atleast_1d(to_float64(data.count)) > 0
    note = _note(layer, trained, reached)
    compared = reached if len(reached) == 1 else trained & reached
    updates, initial_share = _count_updates(layer)
    known = (int(trained.sum()), int(reached.sum()), note, updates, initial_share)
    if not compared.any():
        return LayerStatistics(path, None, None, (None,) * len(mean), *known)
    distance = (np.abs(data_mean - mean) / np.sqrt(variance + layer.epsilon)).mean(axis=1)
    ratio = np.abs(np.log((data_variance + layer.epsilon) / (variance + layer.epsilon)))
    return LayerStatistics(
        path,
        float(distance[compared].mean()),
        float(ratio[compared].mean()),
        tuple(float(d) if c else None for d, c in zip(distance, compared, strict=True)),
        *known,
    )


def _count_updates(layer: keras.layers.Layer) -> tuple[tuple[int, ...] | None, float | None]:
    """Return the number of updates of moving statistics, and the share of their initial value.

    Each row of the statistics (each timestep) has its own number of updates. The share (0 to 1) is
    the coefficient of the initial value in the moving average. The result is the largest share of
    all updated rows, or 1 without updates. Both results are None if the layer does not count
    updates.
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
        return f"the data have {beyond} timesteps that no training sequence had"
    return ""
