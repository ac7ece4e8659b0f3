"""Make the findings of a check: observations with advice for the user."""

from collections.abc import Callable, Iterator, Sequence

from keras_norm.export.checks.properties.backends import differ_between_backends
from keras_norm.export.checks.properties.no_nan import has_nan
from keras_norm.export.checks.properties.property_registry import property_named
from keras_norm.export.compare.input_cases import is_edge
from keras_norm.export.results.artifact_result import ArtifactResult
from keras_norm.export.results.check_result import (
    NOTABLE,
    Finding,
    LayerStatistics,
    TrainInferenceGap,
)

RUN_ADVICE = "Correct the cause that the message names, or export the model again."
VALUES_ADVICE = "Export the model again: the outputs are not the outputs of this model."
GAP_ADVICE = "Call recalibrate(model, training_data), and check again; or give a larger max_gap."

# The report gives advice if the weight of the initial value in the moving statistics is above this
# limit.
INITIAL_SHARE = 0.1
# The report gives advice if the moving statistics average fewer batches than this limit.
FEW = 10

# The report gives advice if the data have fewer samples than this: the standard error of the mean
# is then above 0.1 standard deviations.
FEW_SAMPLES = 100

# The report gives advice if a metric is worse in inference mode than in training mode by more than
# this limit. The limit is a difference of two accuracies, or a difference of two mean squared
# errors divided by the error in training mode.
NOTABLE_METRIC = 0.01


def findings(
    keras_result: ArtifactResult,
    artifacts: Sequence[ArtifactResult],
    gap: TrainInferenceGap,
    samples: int,
    length: int | None,
) -> tuple[Finding, ...]:
    """Return the findings of a check, each with its advice; findings on artifacts come first.

    Args:
        keras_result: the result of the Keras model.
        artifacts: the results of the artifacts.
        gap: the difference between training mode and inference mode.
        samples: number of samples in the data.
        length: number of timesteps of the data; None without a dynamic time dimension, or if the
            lengths differ.
    """
    found = [
        (result.path or result.name, finding)
        for result in (*artifacts, keras_result)
        for finding in _find_in_result(result, keras_result)
    ]
    causes = [*_find_in_statistics(gap, samples, length), *_find_in_gap(gap)]
    if not gap.passed and not causes:
        causes.append(_describe_large_gap(gap))
    found += [("", cause) for cause in causes]
    # If a file fails in two runtimes for the same reason, the report shows one finding.
    unique: dict[tuple[str, str, str], Finding] = {}
    for file, finding in found:
        unique.setdefault((file, finding.observation, finding.advice), finding)
    return tuple(unique.values())


def _find_in_result(result: ArtifactResult, keras_result: ArtifactResult) -> Iterator[Finding]:
    if result.error is not None:
        yield Finding(result.name, result.error, RUN_ADVICE)
    wrong = [c for output in result.outputs for c in output.comparisons if not c]
    if result.first_difference is not None:
        yield _describe_wrong_outputs(result, keras_result)
    # If the Keras model returns NaN, or differs between backends, its property reports the cause.
    elif wrong and not has_nan(keras_result) and not differ_between_backends(keras_result):
        yield Finding(result.name, wrong[0].description, VALUES_ADVICE)
    for tested in result.properties:
        known = property_named(tested.name)
        advice = None if known is None else known.advise(tested, result)
        if advice is not None:
            yield Finding(result.name, tested.detail, advice)


def _describe_wrong_outputs(result: ArtifactResult, keras_result: ArtifactResult) -> Finding:
    first = result.first_difference
    assert first is not None
    needed = result.atol_needed
    accept = "" if needed is None else f" (it needs atol {needed:.2g})"
    if first.is_rounding:
        advice = f"Check at the lengths that you serve (lengths=), or give an atol{accept}."
        return Finding(result.name, first.reason, advice)
    layer = "the first layer whose output differs is not known"
    if first.layer is not None:
        layer = f"the first layer whose output differs is {first.layer!r}"
    observation = f"outputs differ, and {layer}: {first.reason}"
    if result.precision in ("int8", "float16") and result.precision != keras_result.precision:
        judge = "judge the file by its metric"
        judge = judge if result.metrics else f"give labels= and {judge}"
        advice = f"Quantize less, or {judge}{accept}."
    elif first.stale:
        advice = "Export the model again: the file was made from other weights or another model."
    elif first.stale is False and first.layer is not None:
        advice = (
            f"Correct the layer {first.layer!r}: its exported graph and the Keras layer compute "
            "different outputs."
        )
    else:
        advice = (
            "Export this model again and check the new file; or accept the difference between the "
            f"outputs{accept}."
        )
    failed = _failed_cases(result)
    if failed and all(map(is_edge, failed)):
        observation = (
            f"the outputs are right for all samples of the data, but not for {failed[0]}: "
            f"{observation}"
        )
        advice += (
            " A norm of equal values magnifies rounding errors: use keras_norm.LayerNormalization, "
            "which magnifies them least, or a larger epsilon."
        )
    return Finding(result.name, observation, advice)


def _failed_cases(result: ArtifactResult) -> list[str]:
    """Return the names of the test inputs for which an output differs."""
    return [
        name
        for output in result.outputs
        for name, comparison in zip(output.cases, output.comparisons, strict=True)
        if not comparison
    ]


def _find_in_statistics(
    gap: TrainInferenceGap, samples: int, length: int | None
) -> Iterator[Finding]:
    """Yield a finding for each problem of the moving statistics, such as too few updates.

    The finding names the first layer with the problem, and the number of further layers.
    """

    def found(
        rule: Callable[[LayerStatistics], bool],
        observe: Callable[[LayerStatistics], str],
        advice: str,
    ) -> Iterator[Finding]:
        layers = [layer for layer in gap.layers if rule(layer)]
        if layers:
            more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
            yield Finding(layers[0].path + more, observe(layers[0]), advice)

    yield from found(
        lambda s: s.trained_rows == 0,
        lambda s: "the moving statistics have their initial values",
        "Train the model, or call recalibrate(model, data), before you export it.",
    )
    yield from found(
        lambda s: s.large and s.trained_rows > 0,
        lambda s: (
            f"the moving means are {s.distance:.2g} standard deviations away from the means of the "
            f"data, and the variances differ by a factor of {s.factor:.2g}"
        ),
        "Call recalibrate(model, training_data). If the training data differ from these data, "
        "train on data like these. With a lower momentum, statistics follow the weights faster.",
    )
    yield from found(
        lambda s: (s.initial_share or 0.0) > INITIAL_SHARE and s.trained_rows > 0 and _is_off(s),
        lambda s: (
            f"after {_fewest(s)} updates at this momentum, the initial values still have a weight "
            f"of {s.initial_share:.0%} in the statistics"
        ),
        "Lower the momentum, build the layer with debias=True, or call recalibrate(model, data).",
    )
    yield from found(
        lambda s: s.initial_share == 0.0 and _fewest(s) < FEW and _is_off(s),
        lambda s: f"some statistics are averages of only {_fewest(s)} batches",
        "Train for more epochs on sequences with as many timesteps as the data, or call "
        "recalibrate(model, data).",
    )
    yield from found(
        lambda s: len(s.by_row) > 1 and s.trained_rows < s.data_rows,
        lambda s: (
            f"the data reach {s.data_rows} timesteps, but training reached only {s.trained_rows} "
            "timesteps"
        ),
        "Train on sequences as long as the sequences that you serve.",
    )
    yield from found(
        lambda s: length is not None and 1 < len(s.by_row) < length,
        lambda s: (
            f"the data have {length} timesteps, but the layer has moving statistics for only "
            f"{len(s.by_row)} timesteps"
        ),
        f"Build the layer with max_timesteps={length}, unless later timesteps have equal "
        "statistics.",
    )
    yield from found(
        lambda s: s.distance is not None and samples < FEW_SAMPLES,
        lambda s: f"the statistics of only {samples} samples are uncertain",
        f"Give {FEW_SAMPLES} samples or more.",
    )


def _find_in_gap(gap: TrainInferenceGap) -> Iterator[Finding]:
    trained = bool(gap.layers) and all(s.trained_rows >= s.data_rows for s in gap.layers)
    for output in gap.outputs:
        if trained and gap.verdict == "ok" and output.notable:
            yield Finding(
                f"output {output.output!r}",
                f"the outputs in training and inference mode differ by {output.worst:.2g}, "
                "although the moving statistics agree with the statistics of the data",
                "Train with larger batches, because statistics of small batches are uncertain; or "
                "use LayerNorm.",
            )
    for metric in gap.metrics:
        worse = metric.training - metric.inference
        if metric.name != "accuracy":
            worse = -worse / (abs(metric.training) or 1.0)
        if worse > NOTABLE_METRIC:
            yield Finding(
                f"output {metric.output!r}",
                f"the {metric.name} is {metric.inference:.4g} in inference mode, but "
                f"{metric.training:.4g} in training mode",
                "Call recalibrate(model, training_data), and check again.",
            )


def _describe_large_gap(gap: TrainInferenceGap) -> Finding:
    """Return a finding on a train/inference gap above `max_gap` whose cause is not known."""
    if gap.worst is None:
        observation = f"the train/inference gap was not measured: {gap.reason}"
        advice = "Correct the cause that the message names, or give no max_gap."
        return Finding("Keras model", observation, advice)
    observation = (
        f"the train/inference gap is {gap.worst:.3g}, but must be at most max_gap={gap.max_gap:.3g}"
    )
    return Finding("Keras model", observation, GAP_ADVICE)


def _is_off(statistics: LayerStatistics) -> bool:
    """Check whether the moving means differ from the data's means enough to give advice."""
    return statistics.distance is not None and statistics.distance > NOTABLE


def _fewest(statistics: LayerStatistics) -> int:
    """Return the smallest nonzero number of updates of any row of the moving statistics."""
    return min((n for n in statistics.updates or () if n), default=0)
