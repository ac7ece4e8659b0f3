"""Which comparisons prove that exported files compute what was trained."""

import dataclasses
import functools
import importlib.metadata
import math
from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_norm.export import properties, signature
from keras_norm.export.artifacts import Artifact, Source, sources
from keras_norm.export.cases import Case, Samples, make_cases, read_samples
from keras_norm.export.compare import TOLERANCES, coarsest, largest
from keras_norm.export.cost import measure_cost
from keras_norm.export.difference_profile import DifferenceProfile, profile
from keras_norm.export.errors import StreamingError, one_line
from keras_norm.export.masking import mask_fills
from keras_norm.export.precision import model_precision
from keras_norm.export.properties import Arrays, Property, Run, Stream, Tolerance
from keras_norm.export.report import ArtifactResult, OutputResult, Report
from keras_norm.export.runners import KerasRunner
from keras_norm.export.signature import STEP
from keras_norm.export.statistics import measure_gap
from keras_norm.export.streaming import Step

# Sequences, and timesteps of them, that run through the signature `step`, one call for each.
STREAMS, LONGEST_STREAM = 2, 64


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
) -> Report:
    """Run a Keras model in inference mode and its exported files on real data, and compare.

    For every artefact: the values at several batch sizes and lengths; whether a row's output
    depends on that row only; whether masked padding changes what is not padding; whether a call
    gives the same again after another; whether its signature `step`, where it has one, gives
    timestep by timestep what the model gives for the whole; whether running changed a weight; and
    whether it holds ops that its runtime may lack. The Keras model itself is tested for the same
    properties. On a clone, training mode is compared with inference mode, dropout off, and the
    moving statistics of every batch normalization with those of the data.

    The inputs are made once and kept. SavedModels run in TensorFlow without Keras, and through the
    C API, which loads as TensorFlow Serving does; and SavedModels and TFLite files in OpenVINO,
    where it is installed, which shares no code with TensorFlow: what it cannot run is noted and is
    no failure. The model is left as it was found.

    Args:
        model: a functional or Sequential model.
        artifacts: SavedModel folders and .tflite files; or functions from arrays by input name to
            arrays by output name.
        data: real samples: arrays (samples, ...) by input name, or one array for one input.
        rtol: relative tolerance; None for the default of the coarsest precision that the values
            pass through, see `keras_norm.export.compare.TOLERANCES`.
        atol: absolute tolerance; None for the same share of each output's largest value.
        batch_sizes: sizes to run; None for 1, 2, 7 and 32, as far as the data reach. All samples
            are run at the largest.
        lengths: numbers of timesteps to run where time is dynamic; None for 1, half the data's, the
            data's, and half as many again (by repeating the sequences).
        max_gap: fail when the outputs of training and inference mode differ by more than this;
            None reports the difference only.

    Returns:
        A report, falsy when any check failed.

    Raises:
        ValueError: data, sizes, lengths or tolerances that do not fit, or a file that is no model;
            all of it before the first comparison.
        FileNotFoundError: an artefact that does not exist.
        ImportError: a .tflite file, and LiteRT is not installed.

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
    cases = make_cases(samples, batch_sizes, lengths)
    found = sources(artifacts)
    weights_before = [ops.convert_to_numpy(weight) for weight in model.weights]
    before = [ops.convert_to_numpy(v) for v in model.variables]  # with seeds and metrics
    try:
        plan, notes = _plan(model, samples, cases, strict=lengths is not None)
        tolerance = _tolerance(plan, plan.precision, rtol, atol)
        run = KerasRunner(model)
        tested = _properties(run, plan, tolerance)
        cost = measure_cost(run, samples, plan.batch, sum(w.nbytes for w in weights_before))
        weights = properties.unchanged_weights(weights_before, model.weights)
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)
    own = ArtifactResult(
        "Keras model", "", plan.precision, tolerance.rtol, atol, (), (*tested, weights), cost=cost
    )
    results: list[ArtifactResult] = []
    unread: list[str] = []
    for source in found:
        result = _check_source(source, plan, rtol, atol)
        if source.optional and result.error is not None:
            unread.append(f"no failure of the file, but not all was compared: {result.error}")
            result = dataclasses.replace(result, error=None)
        if result.outputs or result.error is not None:
            results.append(result)
    whole = samples.case(range(samples.batch or samples.count))
    gap = measure_gap(model, whole.inputs, max_gap)
    return Report(
        model.name, samples.count, own, tuple(results), gap, (*notes, *unread), _versions()
    )


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What every model is run on: the same inputs, and what the Keras model answers to them."""

    samples: Samples
    cases: tuple[Case, ...]
    expected: tuple[Arrays, ...]
    fills: dict[str, float] | str
    precision: str
    stream: Callable[[], Stream | str]

    @property
    def batch(self) -> int:
        return max(len(case.rows) for case in self.cases)


def _plan(
    model: Any, samples: Samples, cases: tuple[Case, ...], strict: bool
) -> tuple[_Plan, tuple[str, ...]]:
    """Ask the Keras model for every answer; leave out the lengths that it refuses.

    A convolution or a pooling can need more timesteps than the shortest case has. Lengths that the
    user asked for (`strict`), and the data's own, must run.
    """
    run = KerasRunner(model)
    kept, answers, notes = [], [], []
    for case in cases:
        try:
            answers.append(run(case.inputs))
            kept.append(case)
        except Exception as error:
            reason = one_line(error)
            if strict or case.length == samples.length:
                raise ValueError(f"The Keras model cannot run {case.name}: {reason}") from error
            notes.append(f"{case.name} left out, the Keras model refuses it: {reason}")
    precision = model_precision(model, answers[0])
    fills, stream = mask_fills(model, samples), functools.partial(_stream, model, samples, run)
    return _Plan(samples, tuple(kept), tuple(answers), fills, precision, stream), tuple(notes)


def _stream(model: Any, samples: Samples, run: Run) -> Stream | str:
    """Some sequences for the signature `step` of the artefacts, or why the model has none."""
    try:
        step = Step(model)
    except StreamingError as error:
        return str(error)
    inputs = samples.take([row % samples.count for row in range(samples.batch or STREAMS)])
    longest = min(LONGEST_STREAM, *(inputs[name].shape[1] for name in step.sequences))
    inputs = {n: a[:, :longest] if n in step.sequences else a for n, a in inputs.items()}
    return Stream(step, inputs, run(inputs))


def _check_source(
    source: Source, plan: _Plan, rtol: float | None, atol: float | None
) -> ArtifactResult:
    precision = coarsest([source.precision, plan.precision])
    tolerance = _tolerance(plan, precision, rtol, atol)
    result = ArtifactResult(source.name, source.path, precision, tolerance.rtol, atol)
    outputs: tuple[OutputResult, ...] = ()
    tested: tuple[Property, ...] = ()
    try:
        with source.open() as run:
            first = plan.cases[0]
            state = properties.weights_state(run)
            before = run(first.inputs)
            outputs = _values(run, plan, tolerance)
            tested = _properties(run, plan, tolerance)
            at_once = properties.concurrency(run, plan.cases, plan.expected, tolerance)
            cost = measure_cost(run, plan.samples, plan.batch)
            if source.path and STEP in run.signatures():
                with source.open(STEP) as step:
                    tested = (*tested, properties.streaming(step, plan.stream(), tolerance))
            weights = properties.unchanged_answer(run, first, before, state, tolerance)
            ops = properties.plain_ops(run)
    # Whatever a runner raises is a finding about its artefact; the others are still to be checked.
    except Exception as error:
        return dataclasses.replace(
            result, outputs=outputs, properties=tested, error=one_line(error)
        )
    tested = (*tested, at_once, weights, ops)
    return dataclasses.replace(result, outputs=outputs, properties=tested, cost=cost)


def _values(run: Run, plan: _Plan, tolerance: Tolerance) -> tuple[OutputResult, ...]:
    """Compare every case with the Keras model's answer to it, output by output."""
    found: dict[str, list[Any]] = {}
    profiles: dict[str, DifferenceProfile] = {}
    for case, expected in zip(plan.cases, plan.expected, strict=True):
        actual = run(case.inputs)
        for result in tolerance.compare(expected, actual):
            found.setdefault(result.output, []).append((case.name, case.locate(result)))
            spread = None
            if result.output in expected and result.output in actual:
                spread = profile(expected[result.output], actual[result.output])
            if spread is not None:
                known = profiles.get(result.output)
                profiles[result.output] = spread if known is None else known.merge(spread)
    return tuple(
        OutputResult(
            name,
            tuple(case for case, _ in results),
            tuple(result for _, result in results),
            profiles.get(name),
        )
        for name, results in found.items()
    )


def _properties(run: Run, plan: _Plan, tolerance: Tolerance) -> tuple[Property, ...]:
    return (
        properties.row_independence(run, plan.samples, plan.batch, tolerance),
        properties.padding(run, plan.samples, plan.fills, tolerance),
        properties.repeat(run, plan.cases[-1], plan.cases[0], tolerance),
    )


def _tolerance(plan: _Plan, precision: str, rtol: float | None, atol: float | None) -> Tolerance:
    """By default atol is a share of an output's largest value, whatever that value is."""
    share = TOLERANCES[precision]
    scales = {name: largest(answer[name] for answer in plan.expected) for name in plan.expected[0]}
    absolute = {name: share * scale if atol is None else atol for name, scale in scales.items()}
    return Tolerance(share if rtol is None else rtol, absolute)


def _versions() -> tuple[tuple[str, str], ...]:
    packages = ("keras", "tensorflow", "ai-edge-litert", "openvino", "numpy")
    installed = {d for d in packages if _version(d)}
    return tuple((name, _version(name)) for name in packages if name in installed)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
