"""Which comparisons prove that exported files compute what was trained."""

import contextlib
import dataclasses
import functools
import importlib.metadata
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_norm.export import signature
from keras_norm.export.checking.artifacts import Artifact, Source, sources
from keras_norm.export.checking.findings import findings
from keras_norm.export.checking.first_difference import explained_by_rounding, first_difference
from keras_norm.export.checking.gap import measure_gap
from keras_norm.export.checking.plan import Plan, make_plan
from keras_norm.export.checking.streamed import Streams
from keras_norm.export.checking.training_form import training_form
from keras_norm.export.comparing import properties
from keras_norm.export.comparing.cases import read_samples
from keras_norm.export.comparing.compare import coarsest
from keras_norm.export.comparing.cost import measure_cost
from keras_norm.export.comparing.difference_profile import merged, profile
from keras_norm.export.comparing.eight_bits import Useful, judge
from keras_norm.export.comparing.properties import Arrays, Run, Tolerance
from keras_norm.export.errors import one_line
from keras_norm.export.exporting.find_step import find_step
from keras_norm.export.report import Report
from keras_norm.export.results import (
    ArtifactResult,
    DifferenceProfile,
    FirstDifference,
    OutputResult,
    Property,
)
from keras_norm.export.runners import KerasRunner
from keras_norm.export.signature import STEP


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
    """Run a Keras model in inference mode and its exported files on real data, and compare.

    For every artefact: the values at several batch sizes and lengths, and where the model masks an
    input, padded on the right, on the left, with gaps, and with a row that is masked everywhere;
    whether a row's output depends on that row only; whether a call gives the same again after
    another; whether its signature `step`, where it has one, gives timestep by timestep what the
    model gives for the whole; whether running changed a weight; and whether it holds ops that its
    runtime may lack. The Keras model itself is tested for the same properties, and for whether
    padding changes what is not padding. On a clone, training mode is compared with inference mode,
    dropout off, and the moving statistics of every batch normalization with those of the data.

    The inputs are made once and kept. SavedModels run in TensorFlow without Keras, and through the
    C API, which loads as TensorFlow Serving does; and SavedModels and TFLite files in OpenVINO,
    where it is installed, which shares no code with TensorFlow: what it cannot run is noted and is
    no failure. A TFLite file of the step alone runs whole sequences as streams, and those in
    TensorFlow Lite Micro too, where it is installed. ONNX files run in ONNX Runtime. The model is
    left as it was found.

    Args:
        model: a functional or Sequential model.
        artifacts: SavedModel folders, .tflite and .onnx files; or functions from arrays by input
            name to arrays by output name.
        data: real samples: arrays (samples, ...) by input name, or one array for one input.
        rtol: relative tolerance; None for the default, which follows the coarsest precision that
            the values pass through, the layers in a row and the timesteps: see
            `keras_norm.export.comparing.rounding.default_share`.
        atol: absolute tolerance; None for the same default share of each output's largest value.
        batch_sizes: sizes to run, by repeating samples where the data have fewer; None for 1, 2 and
            7, and for 32 where there are as many samples. All samples are run at the largest.
        lengths: numbers of timesteps to run where time is dynamic; None for 1, half the data's, the
            data's, and half as many again (by repeating the sequences). Where the inputs differ,
            the longest has so many, the others in proportion.
        max_gap: fail when the outputs of training and inference mode differ by more than this;
            None reports the difference only.
        labels: of all samples: arrays by output name, or one array for one output. Integers give an
            accuracy, floats the mean squared error, of the model in both modes and of every
            artefact; see `keras_norm.export.comparing.metrics.read_labels`.

    Returns:
        A report, falsy when any check failed.

    Raises:
        ValueError: data, sizes, lengths or tolerances that do not fit, or a file that is no model;
            all of it before the first comparison.
        FileNotFoundError: an artefact that does not exist.
        ImportError: a .tflite or .onnx file, and LiteRT or ONNX Runtime is not installed.

    Example:
    ```python
    report = check(model, ["digits/saved_model", "digits/model.tflite"], x_test)
    report.print()
    assert report
    ```
    """
    for name, value in (("rtol", rtol), ("atol", atol), ("max_gap", max_gap)):
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be finite, and 0 or more. Received: {name}={value}.")
    samples = read_samples(signature.input_specs(model), data)
    if samples.count < 2:
        raise ValueError(
            "The check needs at least 2 samples, so that a row can be seen with other companions. "
            "Received 1."
        )
    found = sources(artifacts)
    with _left_as_it_was(model):
        weights_before = [ops.convert_to_numpy(weight) for weight in model.weights]
        plan = make_plan(model, samples, batch_sizes, lengths, labels)
        tolerance = plan.tolerance(plan.precision, rtol, atol)
        run = KerasRunner(model)
        tested = _own_properties(run, plan, tolerance)
        size = sum(weight.nbytes for weight in weights_before)
        cost = measure_cost(run, samples, plan.batch, size)
        forms = training_form(model, plan, rtol, atol)
        weights = properties.unchanged_weights(weights_before, model.weights)
    own = ArtifactResult(
        "Keras model",
        "",
        plan.precision,
        tolerance.rtol,
        atol,
        properties=(*tested, forms, weights),
        share=plan.share(plan.precision),
        metrics=plan.metrics(plan.expected),
        cost=cost,
    )
    streams = Streams(model, samples)
    checked = [(s, _check_source(streams.source(s), plan, rtol, atol, streams)) for s in found]
    results, unread = _of_use(checked)
    with _left_as_it_was(model):
        results = _explained(model, results, plan)
        unstreamed = _without_step(model, results)
    whole = samples.case(range(samples.batch or samples.count))
    measured = functools.partial(plan.labels.metrics, rows=np.array(whole.rows))
    gap = measure_gap(model, whole.inputs, max_gap, measured)
    return Report(
        model.name,
        samples.count,
        own,
        results,
        gap,
        (*plan.notes, *unread, *unstreamed),
        _versions(),
        findings(own, results, gap, samples.count, samples.length),
        plan.layers,
        plan.timesteps,
    )


@contextlib.contextmanager
def _left_as_it_was(model: Any) -> Iterator[None]:
    """Give the model's variables, seeds and metrics among them, what they held before."""
    before = [ops.convert_to_numpy(variable) for variable in model.variables]
    try:
        yield
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)


def _of_use(
    checked: Sequence[tuple[Source, ArtifactResult]],
) -> tuple[tuple[ArtifactResult, ...], tuple[str, ...]]:
    """The results to be reported, and notes of what runtimes that need not run it did not run."""
    results = []
    unread: dict[str, list[str]] = {}
    for source, result in checked:
        if source.optional and result.error is not None:
            reason = result.error.partition(f"{source.path}: ")[2] or result.error
            unread.setdefault(reason, []).append(source.name)
            result = dataclasses.replace(result, error=None)
        if result.outputs or result.error is not None:
            results.append(result)
    notes = (
        f"{', '.join(names)}: not all was compared, and that is no failure: {reason}"
        for reason, names in unread.items()
    )
    return tuple(results), tuple(notes)


def _without_step(model: Any, results: Sequence[ArtifactResult]) -> tuple[str, ...]:
    """A note of the files without the signature `step`, where the model can have one."""
    ran = [result for result in results if result.path and result.error is None]
    # A runner may see less of a file than another.
    streamed = {result.path for result in ran if result.property("streaming") is not None}
    names: dict[str, str] = {}
    for result in ran:
        if result.path not in streamed:
            names.setdefault(result.path, result.name)
    if not names or find_step(model) is None:
        return ()
    return (f"{', '.join(names.values())}: no signature step, so streaming was not compared",)


def _explained(
    model: Any, results: tuple[ArtifactResult, ...], plan: Plan
) -> tuple[ArtifactResult, ...]:
    """Name the first layer that differs in each artefact whose values fail, once for each file."""
    known: dict[str, FirstDifference] = {}
    explained = []
    for result in results:
        case = _smallest_failed_case(result, plan)
        if case is None:
            explained.append(result)
            continue
        key = result.path or result.name
        if key not in known:
            known[key] = _why(model, result, plan, case)
        explained.append(dataclasses.replace(result, first_difference=known[key]))
    return tuple(explained)


def _smallest_failed_case(result: ArtifactResult, plan: Plan) -> int | None:
    """Index of the case with the fewest values in which numbers differ, or None."""
    failed = {
        k
        for output in result.outputs
        for k, comparison in enumerate(output.comparisons)
        if not comparison and comparison.max_abs is not None
    }
    sizes = [sum(array.size for array in case.inputs.values()) for case in plan.cases]
    return min(failed, key=lambda k: sizes[k], default=None)


def _why(model: Any, result: ArtifactResult, plan: Plan, k: int) -> FirstDifference:
    case, expected = plan.cases[k], plan.expected[k]
    explained = explained_by_rounding(
        model, case, expected, [output.comparisons[k] for output in result.outputs]
    )
    share = max(result.share, result.rtol)
    return explained or first_difference(model, result.path, case.inputs, share)


def _check_source(
    source: Source, plan: Plan, rtol: float | None, atol: float | None, streams: Streams
) -> ArtifactResult:
    precision = coarsest([source.precision, plan.precision])
    tolerance = plan.tolerance(precision, rtol, atol)
    # What a file in eight bits gives is judged as its exporter does, what it repeats as any other.
    by_rms = precision == "int8" and rtol is None and atol is None
    rule = plan.useful() if by_rms else tolerance
    result = ArtifactResult(
        source.name, source.path, precision, tolerance.rtol, atol, share=plan.share(precision)
    )
    outputs: tuple[OutputResult, ...] = ()
    tested: tuple[Property, ...] = ()
    try:
        with source.open() as run:
            first = plan.cases[0]
            state = properties.weights_state(run)
            before = run(first.inputs)
            answers = tuple(run(case.inputs) for case in plan.cases)
            outputs = _values(answers, plan, rule)
            metrics = plan.metrics(answers)
            tested = _properties(run, plan, tolerance)
            at_once = properties.concurrency(run, plan.cases, answers, tolerance)
            cost = measure_cost(run, plan.samples, plan.batch)
            if source.path and STEP in run.signatures():
                with source.open(STEP) as step:
                    tested = (*tested, properties.streaming(step, plan.stream(), rule))
            if source.alone:
                tested = (*tested, streams.compare(run, rule))
            weights = properties.unchanged_answer(run, first, before, state, tolerance)
            ops = properties.plain_ops(run)
    # Whatever a runner raises is a finding about its artefact; the others are still to be checked.
    except Exception as error:
        return dataclasses.replace(
            result, outputs=outputs, properties=tested, error=one_line(error)
        )
    return dataclasses.replace(
        result,
        outputs=outputs,
        properties=(*tested, at_once, weights, ops),
        metrics=metrics,
        cost=cost,
    )


def _values(
    answers: Sequence[Arrays], plan: Plan, tolerance: Tolerance | Useful
) -> tuple[OutputResult, ...]:
    """Compare every case with the Keras model's answer to it, output by output."""
    found: dict[str, list[Any]] = {}
    profiles: dict[str, DifferenceProfile] = {}
    for case, expected, actual in zip(plan.cases, plan.expected, answers, strict=True):
        for result in tolerance.compare(expected, actual):
            found.setdefault(result.output, []).append((case.name, case.locate(result)))
            spread = None
            if result.output in expected and result.output in actual:
                spread = profile(expected[result.output], actual[result.output])
            if spread is not None:
                known = profiles.get(result.output)
                profiles[result.output] = spread if known is None else merged(known, spread)
    outputs = tuple(
        OutputResult(
            name,
            tuple(case for case, _ in results),
            tuple(result for _, result in results),
            profiles.get(name),
        )
        for name, results in found.items()
    )
    if isinstance(tolerance, Useful):
        return judge(outputs, plan.cases, plan.expected, answers, tolerance)
    return outputs


def _properties(run: Run, plan: Plan, tolerance: Tolerance) -> tuple[Property, ...]:
    return (
        properties.row_independence(run, plan.samples, plan.batch, tolerance),
        properties.repeat(run, plan.cases[-1], plan.cases[0], tolerance),
    )


def _own_properties(run: Run, plan: Plan, tolerance: Tolerance) -> tuple[Property, ...]:
    """Those of an artefact, and what padding does, which is the model's own affair."""
    rows, repeat = _properties(run, plan, tolerance)
    sides = (properties.padding, properties.left_padding)
    return (rows, *(side(run, plan.samples, plan.padding, tolerance) for side in sides), repeat)


def _versions() -> tuple[tuple[str, str], ...]:
    packages = ("keras", "tensorflow", "ai-edge-litert", "openvino", "onnxruntime", "numpy")
    installed = {d for d in packages if _version(d)}
    return tuple((name, _version(name)) for name in packages if name in installed)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
