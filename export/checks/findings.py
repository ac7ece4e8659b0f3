"""Give advice on the results of a check."""

from collections.abc import Callable, Iterator, Sequence

from keras_norm.export.compare.input_cases import is_edge
from keras_norm.export.results.artifact_result import ArtifactResult, Finding
from keras_norm.export.results.gap_result import NOTABLE, LayerStatistics, TrainInferenceGap
from keras_norm.export.results.output_comparison import difference

# Advice by the name of the failed check.
ADVICE = {
    "run": "Export the model again; what failed is in the message.",
    "values": "Export the model again: the outputs are not those of this model.",
    "no NaN": "Give data for which the model gives numbers, or mend the layer that gives NaN.",
    "row independence": "Export in inference mode (training=False): batch statistics mix rows.",
    "padding": "Pad all batches to one length, in training and in serving.",
    "repeat": "Build the layer that keeps state between calls with stateful=False.",
    "concurrency": "Find the layer whose calls share a variable, and build it without that state.",
    "streaming": "Export again with step=True, from the model as it is now.",
    "training form": "Train on with compiled=False, and tell us: this is a fault of keras_norm's.",
    "weights": "Export in inference mode (training=False): a layer assigns to a variable.",
    "ops": "Export by this package, and replace the layers that it names.",
    "gap": "Call recalibrate(model, training_data), and compare again; or state a larger max_gap.",
}

# Advice is given if the initial value has more than this weight in moving statistics, or if an
# average contains fewer than this number of batches.
STARTED = 0.1
FEW = 10

# With fewer samples, the standard error of the mean is above 0.1 standard deviations.
FEW_SAMPLES = 100

# Advice is given if inference mode loses more than this in a metric.
NOTABLE_METRIC = 0.01


def findings(
    own: ArtifactResult,
    artifacts: Sequence[ArtifactResult],
    gap: TrainInferenceGap,
    samples: int,
    length: int | None,
) -> tuple[Finding, ...]:
    """Return all findings with advice; the findings on artifacts come first.

    Args:
        own: the result of the Keras model.
        artifacts: the results of the artifacts.
        gap: the difference between training mode and inference mode.
        samples: number of samples in the data.
        length: number of timesteps of the data; None without a dynamic time dimension, or if the
            lengths differ.
    """
    found = [(r.path or r.name, f) for r in (*artifacts, own) for f in _of_result(r, own)]
    causes = [*_of_statistics(gap, samples, length), *_of_gap(gap)]
    if not gap.passed and not causes:
        causes.append(_of_max_gap(gap))
    found += [("", cause) for cause in causes]
    told: dict[tuple[str, str, str], Finding] = {}
    for file, finding in found:  # a file that fails in two runners is one finding
        told.setdefault((file, finding.seen, finding.advice), finding)
    return tuple(told.values())


def _of_result(result: ArtifactResult, own: ArtifactResult) -> Iterator[Finding]:
    if result.error is not None:
        yield Finding(result.name, result.error, ADVICE["run"])
    wrong = [c for output in result.outputs for c in output.comparisons if not c]
    if result.first_difference is not None:
        yield _of_values(result, own)
    elif wrong and not own.gives_nan:  # NaN in the Keras model has its own finding
        yield Finding(result.name, difference(wrong[0]), ADVICE["values"])
    sides = {tested.name: tested.status for tested in result.properties}
    for tested in result.properties:
        if tested.name == "streaming" and wrong:  # the finding on wrong outputs has the cause
            continue
        if tested.status == "fail":
            advice = ADVICE[tested.name]
            if tested.name == "padding" and sides.get("left padding") == "pass":
                advice = "Pad on the left: the model counts its timesteps from the end."
            yield Finding(result.name, tested.detail, advice)
        # If padding on the right fails too, its advice covers both sides.
        if (tested.name, tested.status) == ("left padding", "differs") and (
            sides.get("padding") != "fail"
        ):
            advice = "Pad on the right: the model counts its timesteps from the start."
            yield Finding(result.name, tested.detail, advice)


def _of_values(result: ArtifactResult, own: ArtifactResult) -> Finding:
    first = result.first_difference
    assert first is not None
    needed = result.atol_needed
    accept = "" if needed is None else f" (it needs atol {needed:.2g})"
    if first.is_rounding:
        seen = first.reason
        advice = f"Compare at the lengths that you serve (lengths=), or state an atol{accept}."
        return Finding(result.name, seen, advice)
    place = "which layer is not known" if first.layer is None else f"from layer {first.layer!r} on"
    seen = f"the values differ, {place}: {first.reason}"
    if result.precision in ("int8", "float16") and result.precision != own.precision:
        judge = "judge by the metric" if result.metrics else "give labels= and judge by the metric"
        advice = f"Quantize less, or {judge}{accept}."
    elif first.stale:
        advice = "Export the model again: the file was not made from this model as it is now."
    elif first.stale is False and first.layer is not None:
        advice = f"Look at what is exported: {first.layer!r} computes something else in the file."
    else:
        advice = f"Make the file again from this model and compare; or accept it{accept}."
    failed = _failed_cases(result)
    if failed and all(map(is_edge, failed)):
        seen = f"no sample of the data differs, but {failed[0]} does: {seen}"
        advice += (
            " A norm of equal values magnifies rounding: keras_norm.LayerNormalization does so "
            "least, and a larger epsilon helps."
        )
    return Finding(result.name, seen, advice)


def _failed_cases(result: ArtifactResult) -> list[str]:
    """Return the names of the test inputs for which an output differs."""
    return [
        name
        for output in result.outputs
        for name, comparison in zip(output.cases, output.comparisons, strict=True)
        if not comparison
    ]


def _of_statistics(gap: TrainInferenceGap, samples: int, length: int | None) -> Iterator[Finding]:
    """Yield one finding for each rule that applies; it names the first layer, counts the rest."""

    def found(
        rule: Callable[[LayerStatistics], bool], seen: Callable[[LayerStatistics], str], advice: str
    ) -> Iterator[Finding]:
        layers = [layer for layer in gap.layers if rule(layer)]
        if layers:
            more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
            yield Finding(layers[0].path + more, seen(layers[0]), advice)

    yield from found(
        lambda s: s.trained_rows == 0,
        lambda s: "the moving statistics are still those it started with",
        "Train the model, or call recalibrate(model, data), before you export it.",
    )
    yield from found(
        lambda s: s.large and s.trained_rows > 0,
        lambda s: (
            f"the moving means are {s.distance:.2g} standard deviations from the data's, the "
            f"variances differ by a factor of {s.factor:.2g}"
        ),
        "Call recalibrate(model, training_data); if the data are not those of training, train on "
        "data like them. A lower momentum follows the weights faster.",
    )
    yield from found(
        lambda s: (s.started or 0.0) > STARTED and s.trained_rows > 0 and _is_off(s),
        lambda s: (
            f"{_fewest(s)} updates at this momentum: {s.started:.0%} of the statistics are what "
            "they started with"
        ),
        "Lower the momentum, build with debias=True, or call recalibrate(model, data).",
    )
    yield from found(
        lambda s: s.started == 0.0 and _fewest(s) < FEW and _is_off(s),
        lambda s: f"some statistics average {_fewest(s)} batches only",
        "Train longer on sequences of this length, or call recalibrate(model, data).",
    )
    yield from found(
        lambda s: len(s.by_row) > 1 and s.trained_rows < s.data_rows,
        lambda s: f"the data reach {s.data_rows} timesteps, training reached {s.trained_rows}",
        "Train on sequences as long as those that you serve.",
    )
    yield from found(
        lambda s: length is not None and 1 < len(s.by_row) < length,
        lambda s: f"the data have {length} timesteps, the statistics {len(s.by_row)} rows",
        f"Build with max_timesteps={length}, unless all later timesteps are alike.",
    )
    yield from found(
        lambda s: s.distance is not None and samples < FEW_SAMPLES,
        lambda s: f"compared with the statistics of {samples} samples, which are uncertain",
        f"Give the check {FEW_SAMPLES} samples or more.",
    )


def _of_gap(gap: TrainInferenceGap) -> Iterator[Finding]:
    trained = bool(gap.layers) and all(s.trained_rows >= s.data_rows for s in gap.layers)
    for output in gap.outputs:
        if trained and gap.verdict == "ok" and output.notable:
            yield Finding(
                f"output {output.output!r}",
                f"training and inference mode differ by {output.worst:.2g}, with moving statistics "
                "that are those of the data",
                "The statistics of so small a batch are uncertain: train with a larger one, or "
                "with a LayerNorm.",
            )
    for metric in gap.metrics:
        worse = metric.training - metric.inference
        if metric.name != "accuracy":
            worse = -worse / (abs(metric.training) or 1.0)
        if worse > NOTABLE_METRIC:
            yield Finding(
                f"output {metric.output!r}",
                f"{metric.name} {metric.inference:.4g} in inference mode, {metric.training:.4g} in "
                "training mode",
                "Call recalibrate(model, training_data), and compare again.",
            )


def _of_max_gap(gap: TrainInferenceGap) -> Finding:
    """Give advice on a gap whose cause was not found."""
    if gap.worst is None:
        seen = f"the train/inference gap was not measured: {gap.reason}"
        return Finding("Keras model", seen, "Mend what the message names, or leave max_gap out.")
    seen = f"the train/inference gap is {gap.worst:.3g}, max_gap is {gap.max_gap:.3g}"
    return Finding("Keras model", seen, ADVICE["gap"])


def _is_off(statistics: LayerStatistics) -> bool:
    """Check whether the moving means differ from the data's means; only then advice is needed."""
    return statistics.distance is not None and statistics.distance > NOTABLE


def _fewest(statistics: LayerStatistics) -> int:
    """Return the smallest number of updates of a row, without rows that had no update."""
    return min((n for n in statistics.updates or () if n), default=0)
