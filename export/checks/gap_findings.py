"""Decide whether a difference between training mode and inference mode needs advice.

The difference (train/inference gap) needs advice if inference mode is measurably worse than
training mode, and the user can change that:

- With integer or float labels for every output, the metric decides. If no metric is worse in
  inference mode, the gap needs no advice, whatever the statistics are.
- Without labels, the moving statistics decide: they are far from the statistics of the data, or
  averages of too few batches, or training reached too few timesteps.
- The outputs of a model without batch normalization must not depend on the mode.

Outputs that differ although the statistics agree need no advice: training mode uses the statistics
of each batch, and inference mode uses the statistics of all batches. If `max_gap` is exceeded, the
check fails, and the statistics are named as causes in any case.
"""

import math
from collections.abc import Iterator

from keras_norm.export.results.check_result import Finding
from keras_norm.export.results.gap_result import (
    NOTABLE,
    LayerStatistics,
    MetricGap,
    TrainInferenceGap,
)
from keras_norm.export.results.output_comparison import largest_known

# The report gives advice if a metric is worse in inference mode than in training mode by more than
# this limit. An accuracy may be lower by 0.01. A mean squared error may be higher by 1% of its
# value in training mode.
NOTABLE_METRIC = 0.01
# The report gives advice if the moving statistics differ from the data and training was too short.
# Training was too short if the initial values have a weight above 0.1 in the moving average. If the
# average excludes the initial values, training was too short with fewer than 10 batches.
INITIAL_SHARE = 0.1
FEW = 10
# With fewer samples than FEW_SAMPLES, the report asks for more data: the mean of so few samples has
# a standard error above 0.1 standard deviations.
FEW_SAMPLES = 100

FROZEN = "the layer is frozen, so training mode uses its moving statistics too"
RECALIBRATE = "Call recalibrate(model, training_data), and check again."


def advise_on_gap(
    gap: TrainInferenceGap, length: int | None, rounding: float
) -> tuple[Finding, ...]:
    """Return advice on a difference between training and inference mode; () if none is needed.

    Args:
        gap: the measured gap; its verdict and its reason are not read.
        length: number of timesteps of the data; None without a dynamic time dimension, or if the
            lengths differ.
        rounding: the largest difference by rounding, as a share of an output's largest value.
    """
    worse = tuple(_find_worse_metrics(gap))
    found: tuple[Finding, ...] = ()
    if worse or not _labels_decide(gap) or not gap.passed:
        found = (*worse, *_find_in_statistics(gap, length), *_find_other_layers(gap, rounding))
    return found if found or gap.passed else (_describe_large_gap(gap),)


def describe_gap(
    gap: TrainInferenceGap, advice: tuple[Finding, ...], samples: int
) -> tuple[str, str]:
    """Return the verdict on a difference between training and inference mode, and the reason.

    Args:
        gap: the measured gap; its verdict and its reason are not read.
        advice: the result of `advise_on_gap`.
        samples: number of samples in the data.
    """
    undefined = [output.output for output in gap.outputs if not math.isfinite(output.worst)]
    undefined += [n.path for n in gap.layers if not math.isfinite(n.distance or 0.0)]
    measured = any(layer.distance is not None for layer in gap.layers)
    few = f"; {samples} samples are few, give {FEW_SAMPLES}" if samples < FEW_SAMPLES else ""
    if advice:
        return "large", f"{advice[0].subject}: {advice[0].observation}" + few * measured
    if undefined:
        return "not measured", (
            f"{undefined[0]} has NaN or infinity in training mode or inference mode"
        )
    largest = largest_known(output.worst for output in gap.outputs if output.notable)
    differs = (
        f"; the outputs differ by up to {largest:.2g}, because training mode uses the statistics "
        "of each batch"
        if largest and gap.layers
        else ""
    )
    if _labels_decide(gap):
        return "ok", "; ".join(map(_describe_metric, gap.metrics)) + differs
    if not gap.layers:
        return "ok", (
            "the model has no batch normalization, and training and inference mode give equal "
            "outputs"
        )
    unmeasured = [n for n in gap.layers if n.distance is None and n.note != FROZEN]
    if unmeasured:
        note = unmeasured[0].note or "all values of the data are masked in this layer"
        return "not measured", f"{unmeasured[0].path}: {note}"
    far = max(gap.layers, key=lambda layer: layer.distance or 0.0)
    if far.distance is None:
        return "ok", (
            f"all batch normalizations, such as {far.path}, are frozen, so training mode uses "
            "their moving statistics too"
        )
    return "ok", (
        f"the moving statistics agree with the data: the means are at most {far.distance:.2g} "
        f"standard deviations away (in {far.path}){differs}{few}"
    )


def _labels_decide(gap: TrainInferenceGap) -> bool:
    """Return whether every output has labels: a metric then shows if inference mode is worse."""
    labeled = {metric.output for metric in gap.metrics}
    return bool(labeled) and all(output.output in labeled for output in gap.outputs)


def _find_worse_metrics(gap: TrainInferenceGap) -> Iterator[Finding]:
    for metric in gap.metrics:
        worse = metric.training - metric.inference
        if metric.name != "accuracy":
            worse = -worse / (abs(metric.training) or 1.0)
        if worse > NOTABLE_METRIC:
            yield Finding(f"output {metric.output!r}", _describe_metric(metric), RECALIBRATE)


def _describe_metric(metric: MetricGap) -> str:
    return (
        f"the {metric.name} is {metric.inference:.4g} in inference mode and {metric.training:.4g} "
        "in training mode"
    )


def _find_other_layers(gap: TrainInferenceGap, rounding: float) -> Iterator[Finding]:
    """Yield advice if training mode changes the outputs of a model without BatchNorm."""
    limits = ((output, rounding * max(output.scale, 1.0)) for output in gap.outputs)
    differ = [output for output, limit in limits if limit < output.worst < math.inf]
    if differ and not gap.layers:
        worst = max(differ, key=lambda output: output.worst)
        yield Finding(
            f"output {worst.output!r}",
            f"differs by {worst.worst:.2g} between training mode and inference mode, although the "
            "model has no batch normalization",
            "Find the layer whose output differs between training=True and training=False. The "
            "exported files compute training=False.",
        )


def _find_in_statistics(gap: TrainInferenceGap, length: int | None) -> Iterator[Finding]:
    """Yield advice on each problem of BatchNorm's moving statistics, such as too few updates.

    The finding names the first layer with the problem, and the number of further layers. A frozen
    layer has no problem, because both modes use its moving statistics.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for layer in gap.layers:
        for observation, advice in _problems(layer, length) if layer.note != FROZEN else ():
            found.setdefault(advice, []).append((layer.path, observation))
    for advice, ((path, observation), *others) in found.items():
        more = f" and {len(others)} more" if others else ""
        yield Finding(path + more, observation, advice)


def _problems(layer: LayerStatistics, length: int | None) -> Iterator[tuple[str, str]]:
    """Yield a (problem, advice) pair for each problem of a BatchNorm's moving statistics."""
    fewest = min((n for n in layer.updates or () if n), default=0)
    differs = layer.distance is not None and layer.distance > NOTABLE
    if layer.trained_rows == 0:
        yield (
            "the moving statistics have their initial values",
            "Train the model, or call recalibrate(model, data), before you export it.",
        )
    elif layer.large:
        yield (
            f"the moving means are {layer.distance:.2g} standard deviations away from the means of "
            f"the data, and the variances differ by a factor of {layer.factor:.2g}",
            "Call recalibrate(model, training_data). If the training data differ from the data of "
            "this check, train on data like the data of this check. With a lower momentum, moving "
            "statistics adapt faster when the weights change.",
        )
    if (layer.initial_share or 0.0) > INITIAL_SHARE and layer.trained_rows and differs:
        yield (
            f"after {fewest} updates at this momentum, the initial values still have a weight of "
            f"{layer.initial_share:.0%} in the moving statistics",
            "Lower the momentum, build the layer with debias=True, or call recalibrate(model, "
            "data).",
        )
    if layer.initial_share == 0.0 and fewest < FEW and differs:
        yield (
            f"some statistics are averages of only {fewest} batches",
            "Train for more epochs on sequences with as many timesteps as the data, or call "
            "recalibrate(model, data).",
        )
    if len(layer.by_row) > 1 and layer.trained_rows < layer.data_rows:
        yield (
            f"the data reach {layer.data_rows} timesteps, but training reached only "
            f"{layer.trained_rows} timesteps",
            "Train on sequences as long as the sequences that you serve.",
        )
    if length is not None and 1 < len(layer.by_row) < length and differs:
        yield (
            f"the data have {length} timesteps, but the layer has moving statistics for only "
            f"{len(layer.by_row)} timesteps",
            f"Build the layer with max_timesteps={length}, unless all timesteps from timestep "
            f"{len(layer.by_row)} on have equal statistics.",
        )


def _describe_large_gap(gap: TrainInferenceGap) -> Finding:
    """Return advice if training and inference mode differ by more than the user's `max_gap`.

    The check did not find the cause of this difference.
    """
    advice = "Call recalibrate(model, training_data), and check again; or give a larger max_gap."
    if gap.worst is None:
        advice = "Correct the problem that prevents the measurement, or give no max_gap."
    return Finding("Keras model", gap.description, advice)
