"""Check that exported files compute the outputs of the trained Keras model."""

import contextlib
import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_norm.export import signature
from keras_norm.export.checks import properties
from keras_norm.export.checks.artifacts import Artifact, Source, sources
from keras_norm.export.checks.batches import batches
from keras_norm.export.checks.data_reader import Data
from keras_norm.export.checks.excuse_rounding import excuse_rounding
from keras_norm.export.checks.findings import findings
from keras_norm.export.checks.first_difference import explained_by_rounding, first_difference
from keras_norm.export.checks.judge import Judge
from keras_norm.export.checks.plan import Plan, make_plan
from keras_norm.export.checks.run_artifacts import (
    Opened,
    answers_of,
    answers_to_padding,
    left_as_it_was,
    opened,
)
from keras_norm.export.checks.sweep import Sweep
from keras_norm.export.checks.train_inference_gap import judge_gap
from keras_norm.export.checks.training_recurrence import training_form
from keras_norm.export.compare.merge import merge
from keras_norm.export.model.step_signature import find_step
from keras_norm.export.package_versions import versions
from keras_norm.export.report.report import Report
from keras_norm.export.report.terminal import shared
from keras_norm.export.results.artifact_result import ArtifactResult, FirstDifference


def check(
    model: Any,
    artifacts: Sequence[Artifact],
    data: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    batch_sizes: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    max_gap: float | None = None,
    labels: Any = None,
) -> Report:
    """Compare a Keras model in inference mode with its exported files on real data.

    The check tests every artifact:

    - The outputs equal the outputs of the Keras model at several batch sizes and lengths. If the
      model masks an input, further sequences are masked on the right, on the left, in gaps, and in
      one row at every timestep.
    - A row's output depends on that row only.
    - A call gives equal outputs when it is repeated after another call.
    - The signature `step`, if there is one, gives the outputs of the whole sequence when it is
      called once for each timestep.
    - Running the artifact changes no weight.
    - The artifact has no op that its runtime may lack.

    The Keras model is tested for these properties too. In addition, padding must not change its
    outputs at unpadded timesteps. On a clone of the model, the check compares training mode with
    inference mode, with dropout off. It also compares the moving statistics of every batch
    normalization with the statistics of the data.

    SavedModels run in TensorFlow without Keras. They also run through the TensorFlow C API: it
    loads them as TensorFlow Serving does. TFLite files run in LiteRT, and ONNX files in ONNX
    Runtime. OpenVINO and TensorFlow Lite Micro run if they are installed. OpenVINO shares no code
    with TensorFlow; it runs every file that does not compute in integers. TensorFlow Lite Micro
    runs single-step TFLite files. A file that these two cannot run gives a note, not a failure.

    A single-step model receives every sequence one timestep at a time. The outputs of 8-bit files
    are judged by the root mean square of their differences
    (`keras_norm.export.compare.quantization_tolerance`). The check restores every variable of the
    model. It makes the inputs once and uses them for all artifacts.

    Args:
        model: a functional or Sequential model.
        artifacts: SavedModel directories, .tflite files and .onnx files; or functions that map
            arrays by input name to arrays by output name.
        data: real samples: arrays (samples, ...) by input name, or one array for one input; a .npz
            file of arrays by input name, or several files, read one at a time; or a
            `tf.data.Dataset` or `keras.utils.PyDataset` of batches x, (x, y) or (x, y, weights).
            The labels of a dataset are y; its weights are not used.
        rtol: relative tolerance; None for the tolerance of the coarsest precision that the values
            pass through: see `keras_norm.export.compare.tolerance.TOLERANCES`.
        atol: absolute tolerance; None for a share of each output's largest value. The share depends
            on the precision, the number of layers in a row and the number of timesteps: see
            `keras_norm.export.compare.tolerance.default_share`.
        batch_sizes: batch sizes to run; samples are repeated where the data have fewer. None for 1,
            2 and 7, and also for 32 if the data have 32 samples. The run over all samples uses
            batches of at most the largest size.
        lengths: numbers of timesteps to run where the time dimension is dynamic. None for 1, and
            for 0.5, 1 and 1.5 times the length of the data (sequences are repeated). Where the
            inputs differ in length, the longest input gets this length, other inputs a length in
            proportion.
        max_gap: the check fails when the outputs of training and inference mode differ by more than
            `max_gap`; None only reports the difference.
        labels: labels of all samples: arrays by output name, or one array for one output. Integer
            labels give an accuracy, float labels a mean squared error. Both are measured for the
            model in training and inference mode, and for every artifact; see
            `keras_norm.export.compare.metrics.read_labels`. For data in files, give one .npz file
            of labels by output name for each data file. For a dataset give None: it has its own
            labels.

    Returns:
        A report, falsy when any check failed.

    Raises:
        ValueError: data, sizes, lengths or tolerances do not fit the model, or a file is not a
            model. The error is raised before the first comparison, unless its cause is in a batch
            or a data file after the first.
        FileNotFoundError: an artifact does not exist.
        ImportError: LiteRT is needed for a .tflite file, or ONNX Runtime for an .onnx file, and is
            not installed.

    Example:
    ```python
    report = check(model, ["digits/saved_model", "digits/model.tflite"], x_test)
    report.print()
    assert report
    ```
    """
    for name, value in (("rtol", rtol), ("atol", atol), ("max_gap", max_gap)):
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if value is not None and not (number and value >= 0 and math.isfinite(value)):
            raise ValueError(
                f"{name} must be a number, finite, and 0 or more. Received: {name}={value!r}."
            )
    if rtol is not None and rtol >= 1:
        raise ValueError(f"rtol must be below 1, else zeros pass. Received: rtol={rtol!r}.")
    parts = Data(signature.input_specs(model), data, labels)
    samples, first = parts.first()
    if samples.count < 2:
        raise ValueError(
            "The check needs at least 2 samples, so that a row can be seen with other companions: "
            "in the first batch, if those after it have another length. Received 1."
        )
    found = sources(artifacts, model)
    with left_as_it_was(model):
        weights = [ops.convert_to_numpy(weight) for weight in model.weights]
        plan = make_plan(model, samples, batch_sizes, lengths)
        if first.labels is not None:
            next(batches(first, plan.run, plan.batch))  # raises for labels that do not fit
        with opened(found, plan.cases[0].inputs) as runs:
            sweep = Sweep(model, plan.run, runs, rtol, plan.batch)
            measured = merge(map(sweep, parts))
            answers = [answers_of(artifact, plan) for artifact in runs]
        judged = Judge(plan, measured, rtol, atol)
        judged.require_comparison()
        own = _own_result(model, judged, weights)
        checked = [judged.artifact(*pair) for pair in zip(found, answers, strict=True)]
        results, unread = _of_use(list(zip(found, checked, strict=True)))
        excused: tuple[str, ...] = ()
        if rtol is None and atol is None:
            results, excused = excuse_rounding(model, results, plan)
        if not own.gives_nan:
            results = _explained(model, results, plan, sweep)
        unstreamed = _without_step(model, results)
    gap = judge_gap(model, measured.gap, max_gap)
    return Report(
        model.name,
        measured.samples,
        own,
        results,
        gap,
        (*plan.notes, *excused, *unread, *unstreamed, *judged.unvarying(), *judged.unseen()),
        tuple(versions().items()),
        findings(own, results, gap, measured.samples, plan.samples.length),
        plan.layers,
        judged.timesteps,
    )


def _own_result(model: Any, judged: Judge, weights: Sequence[np.ndarray]) -> ArtifactResult:
    """Test the properties of the Keras model; only this result contains the padding tests."""
    plan, run = judged.plan, judged.plan.run
    keras_source = Source("Keras model", "", plan.precision, lambda: contextlib.nullcontext(run))
    size = sum(weight.nbytes for weight in weights)
    answers = answers_of(Opened(keras_source, run), plan, size)
    if answers.error is not None:
        raise ValueError(f"The Keras model cannot run: {answers.error}")
    tolerance = judged.tolerance(plan.precision)
    padded = answers_to_padding(run, plan)
    forms = training_form(model, plan, tolerance.rtol, judged.atol)
    changed = [
        variable.path
        for old, variable in zip(weights, model.weights, strict=True)
        if not np.array_equal(old, ops.convert_to_numpy(variable))
    ]
    rows, repeat = judged.calls(answers, tolerance)
    whole = str(plan.padding) if not padded else padded[""]
    sides = (
        properties.padding(side, whole, padded.get(side), tolerance) for side in ("right", "left")
    )
    return ArtifactResult(
        keras_source.name,
        "",
        plan.precision,
        tolerance.rtol,
        judged.atol,
        properties=(
            judged.no_nan(),
            rows,
            *sides,
            repeat,
            forms,
            properties.unchanged(changed, len(weights)),
        ),
        share=judged.share(plan.precision),
        metrics=tuple(tally.metric for tally in judged.measured.tallies),
        cost=answers.cost,
    )


def _of_use(
    checked: Sequence[tuple[Source, ArtifactResult]],
) -> tuple[tuple[ArtifactResult, ...], tuple[str, ...]]:
    """Return the results to report, and notes on files that optional runtimes could not run."""
    results = []
    unread: list[tuple[str, str]] = []
    for source, result in checked:
        if source.optional and result.error is not None:
            reason = result.error.partition(f"{source.path}: ")[2] or result.error
            unread.append((source.name, reason))
            result = dataclasses.replace(result, error=None)
        if result.outputs or result.properties or result.error is not None:
            results.append(result)
    notes = (
        f"{', '.join(names)}: not all was compared, and that is no failure: {reason}"
        for names, reason in shared(unread)
    )
    return tuple(results), tuple(notes)


def _without_step(model: Any, results: Sequence[ArtifactResult]) -> tuple[str, ...]:
    """Return notes on the files whose step signature was not compared, if the model supports it."""
    ran = [result for result in results if result.path and result.outputs]
    # Two runners of one file may differ: one can run its step signature, the other cannot.
    streamed = {result.path for result in ran if result.property("streaming") is not None}
    names: dict[str, str] = {}
    others: dict[str, str] = {}
    for result in ran:
        streaming = result.property("streaming")
        if result.path not in streamed:
            names.setdefault(result.path, result.name)
        elif streaming is not None and streaming.status == "differs":
            note = f"{result.name}: streaming was not compared: {streaming.detail}"
            others.setdefault(result.path, note)
    if not names or find_step(model) is None:
        return tuple(others.values())
    without = f"{', '.join(names.values())}: no signature step, so streaming was not compared"
    return without, *others.values()


def _explained(
    model: Any, results: tuple[ArtifactResult, ...], plan: Plan, sweep: Sweep
) -> tuple[ArtifactResult, ...]:
    """Find the first layer that differs, once for each file whose outputs fail."""
    known: dict[str, FirstDifference] = {}
    explained = []
    for result in results:
        if (name := _smallest_failed(result, plan)) is not None:
            key = result.path or result.name
            known[key] = known.get(key) or _why(model, result, name, plan, sweep)
            result = dataclasses.replace(result, first_difference=known[key])
        explained.append(result)
    return tuple(explained)


def _smallest_failed(result: ArtifactResult, plan: Plan) -> str | None:
    """Return the name of the smallest test input whose outputs differ, or None.

    The run over all samples is chosen only if no other test input fails.
    """
    failed = {
        name
        for output in result.outputs
        for name, comparison in zip(output.cases, output.comparisons, strict=True)
        if not comparison and comparison.max_abs is not None
    }
    cases = (*plan.cases, *plan.edges)
    sizes = {case.name: sum(array.size for array in case.inputs.values()) for case in cases}
    return min(failed, key=lambda name: sizes.get(name, math.inf), default=None)


def _why(
    model: Any, result: ArtifactResult, name: str, plan: Plan, sweep: Sweep
) -> FirstDifference:
    calls = zip((*plan.cases, *plan.edges), (*plan.expected, *plan.edges_expected), strict=True)
    asked = {case.name: (case, y) for case, y in calls}
    case, expected = asked.get(name) or sweep.worst[result.name]
    comparisons = [
        output.comparisons[output.cases.index(name)]
        for output in result.outputs
        if name in output.cases
    ]
    share = max(result.share, result.rtol)
    explained = explained_by_rounding(model, case, expected, comparisons)
    return explained or first_difference(model, result.path, case.inputs, share)
