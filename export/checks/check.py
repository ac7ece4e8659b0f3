"""Check that exported files compute the outputs of the trained Keras model."""

import contextlib
import dataclasses
import math
import numbers
from collections.abc import Sequence

import keras

from keras_norm.export import signature
from keras_norm.export.checks.artifact_results import find_notes, make_result
from keras_norm.export.checks.artifacts import Artifact, sources
from keras_norm.export.checks.data_measurements import DataMeasurements, run_batches
from keras_norm.export.checks.data_reader import Data, DataLike
from keras_norm.export.checks.first_difference import explain_differences
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.properties.property_registry import (
    PROPERTIES,
    explains_outputs,
    find_advice,
)
from keras_norm.export.checks.subject import Subject, open_subjects, run_all_data
from keras_norm.export.checks.train_inference_gap import GapMeter
from keras_norm.export.compare.arrays import kind_of
from keras_norm.export.compare.expected import Expected
from keras_norm.export.formats.artifact_format import Source
from keras_norm.export.model.judge import Judge
from keras_norm.export.model.keras_runner import restored_variables
from keras_norm.export.model.other_backends import runs_on_tensorflow
from keras_norm.export.packages import installed_versions
from keras_norm.export.report.report import Report
from keras_norm.export.results.artifact_result import ArtifactResult
from keras_norm.progress import Progress
from keras_norm_verify.printable import printable


@runs_on_tensorflow
def check(
    model: keras.Model,
    artifacts: Artifact | Sequence[Artifact],
    data: DataLike,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    batch_sizes: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    max_gap: float | None = None,
    labels: DataLike = None,
) -> Report:
    """Compare a Keras model in inference mode with its exported files on real data.

    The check tests every artifact:

    - The outputs equal the outputs of the Keras model within rounding, or within a wider limit for
      quantized files, at several batch sizes and lengths. If the model masks an input, further
      sequences are masked on the right, on the left, in gaps, and in one row at every timestep.
    - A row's output depends on that row only.
    - A call gives equal outputs when it is repeated after another call.
    - The signature `step`, if there is one, gives the outputs of the whole sequence when it is
      called once for each timestep.
    - Running the artifact changes no weight.
    - The artifact has no op that its runtime may lack.
    - The constants of a quantized file equal the constants of a new export within rounding.

    The Keras model is tested for row independence and repeated calls too. In addition, padding must
    not change its outputs at unpadded timesteps. On a clone of the model, the check compares
    training mode with inference mode, with dropout off. It also compares the moving statistics of
    every batch normalization with the statistics of the data.

    SavedModels run in TensorFlow without Keras. They also run through the TensorFlow C API: it
    loads them as TensorFlow Serving does. TFLite files run in LiteRT, and ONNX files in ONNX
    Runtime. OpenVINO and TensorFlow Lite Micro run if they are installed. OpenVINO shares no code
    with TensorFlow; it runs every file that does not compute in integers. TensorFlow Lite Micro
    runs single-step TFLite files. A file that these two cannot run gives a note, not a failure.

    A single-step model receives every sequence one timestep at a time. The outputs of 8-bit files
    are judged by the root mean square of their differences, which must be at most a quarter of the
    output's standard deviation. A report with a quantized file (8 bits or float16) is APPROXIMATE
    instead of PASS: it has the number of changed predictions and the error. It is true like PASS.
    The check restores every variable of the model. It makes the inputs once and uses them for all
    artifacts.

    With another backend than TensorFlow, a child process runs this function: see the guide
    "Export models trained on JAX or PyTorch".

    Args:
        model: a functional or Sequential model.
        artifacts: SavedModel directories, .tflite files and .onnx files; or functions that map
            arrays by input name to arrays by output name.
        data: real samples: arrays (samples, ...) by input name, or one array for one input, or a
            list of texts for one input of texts; a .npz file of arrays by input name, or several
            files, read one at a time (a list of `pathlib.Path`); or a
            `tf.data.Dataset` or `keras.utils.PyDataset` of batches x, (x, y) or (x, y, weights).
            The labels of a dataset are y; its weights are not used.
        rtol: relative tolerance; None for the tolerance of the coarsest precision that the values
            pass through, such as 1e-5 for float32.
        atol: absolute tolerance; None for a share of each output's largest value. The share depends
            on the precision, the number of layers in series and the number of timesteps: see the
            guide "How close must the outputs be?".
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
            model in training and inference mode, and for every artifact: see the guide "Which
            inputs does the check run?". For data in files, give one .npz file of labels by output
            name for each data file. For a dataset give None: it has its own labels.

    Returns:
        A report, falsy when any check failed. A quantized file passes within the limit for its
        precision: see `report.status`.

    Raises:
        ValueError: data, sizes, lengths or tolerances do not fit the model, or a file is not a
            model. The error is raised before the first comparison, unless its cause is in a batch
            or a data file after the first.
        RunnerError: the child process of another backend died.
        FileNotFoundError: an artifact does not exist.
        ImportError: LiteRT is needed for a .tflite file, or ONNX Runtime for an .onnx file, and is
            not installed.

    Example:
        >>> path = export_tflite(model, "digits.tflite")
        >>> report = check(model, path, x_test)
        >>> bool(report)
        True
    """
    for name, value in (("rtol", rtol), ("atol", atol), ("max_gap", max_gap)):
        _require_number(name, value)
    if rtol is not None and rtol >= 1:
        raise ValueError(
            f"rtol must be below 1: otherwise an output of zeros passes. Received: rtol={rtol!r}."
        )
    parts = Data(signature.input_specs(model), data, labels)
    samples, first = parts.first()
    if samples.count < 2:
        raise ValueError(
            "The check needs at least 2 samples of equal length at the beginning of the data. It "
            "runs a sample alone and in a batch, and compares the outputs. Received 1 sample."
        )
    found = sources(artifacts, model)
    with restored_variables(model), Progress("check", len(found) + 4) as progress:
        progress.step("running the Keras model")
        plan = Plan(model, samples, batch_sizes, lengths)
        if first.labels is not None:
            # Wrong labels raise ValueError in the first batch, before the long comparison starts.
            next(run_batches(first, plan.run, plan.expected.batch))
        with open_subjects(found, plan) as subjects:
            progress.step("comparing the outputs")
            meter = GapMeter(model)
            measured = run_all_data(parts, plan, subjects, meter, rtol)
            gap, advice = meter.judge(measured.samples, plan.samples.length, max_gap)
            expected = expected_on_data(plan.expected, measured, rtol, atol)
            judge = Judge(model, expected, plan.run)
            checked = []
            for subject in subjects:
                progress.step(f"testing {printable(subject.source.name)}")
                subject.record()
                checked.append(make_result(subject, judge, measured))
        progress.step("testing the Keras model")
        keras_result = _check_keras_model(plan, judge, measured)
        results, unsupported = _replace_optional_errors(list(zip(found, checked, strict=True)))
        progress.step("searching for the causes of differences")
        if not explains_outputs(keras_result):
            worst = {subject.source.name: subject.on_data.worst for subject in subjects}
            results = explain_differences(results, judge, worst)
        notes = [note for known in PROPERTIES for note in known.make_notes(model, results)]
    unmeasured = [gap.reason] if gap.verdict == "not measured" else []
    return Report(
        model.name,
        measured.samples,
        keras_result,
        results,
        gap,
        (
            *(f"train/inference gap not measured: {reason}" for reason in unmeasured),
            *plan.expected.notes,
            *(*find_notes(judge.expected, measured, results), *unsupported, *notes),
        ),
        tuple(installed_versions().items()),
        find_advice(keras_result, results, advice),
        judge.expected.layers,
        judge.expected.timesteps,
    )


def _require_number(name: str, value: float | None) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if value is not None and not (is_number and value >= 0 and math.isfinite(value)):
        raise ValueError(
            f"{name} must be a finite number, 0 or larger. Received: {name}={value!r}."
        )


def expected_on_data(
    expected: Expected, measured: DataMeasurements, rtol: float | None, atol: float | None
) -> Expected:
    """Return the expected outputs, and add the user's tolerances and the output scales on all data.

    Raises ValueError if `atol` is so large that an output of zeros would pass.
    """
    scales = {n: max(x, measured.scales.get(n, 0.0)) for n, x in expected.scales.items()}
    outputs = expected.cases[0].outputs
    floats = [scales[name] for name, y in outputs.items() if kind_of(y) == "float"]
    largest = max(floats, default=0.0)
    if atol is not None and 0.0 < largest <= atol:
        raise ValueError(
            f"With atol={atol:.6g} an output of zeros passes, because the largest output "
            f"of the Keras model is {largest:.6g}. Give a smaller atol."
        )
    return dataclasses.replace(
        expected,
        timesteps=max(expected.timesteps, measured.timesteps),
        scales=scales,
        spreads=measured.spreads,
        rtol=rtol,
        atol=atol,
    )


def _check_keras_model(plan: Plan, judge: Judge, measured: DataMeasurements) -> ArtifactResult:
    """Test the Keras model itself, for example its row independence, and return the result."""
    outputs = tuple(case.outputs for case in plan.expected.all_cases)
    precision = plan.expected.precision
    subject = Subject(
        Source("Keras model", "", precision, lambda: contextlib.nullcontext(plan.run)),
        plan,
        plan.run,
        variables=plan.variables,
        outputs=outputs,
        data=measured,
    )
    subject.record()
    size = sum(weight.nbytes for weight in plan.model.get_weights())
    subject.cost = subject.cost and dataclasses.replace(subject.cost, size=size)
    result = make_result(subject, judge, measured)
    if subject.error is not None:
        raise ValueError(f"The Keras model cannot run: {subject.error}")
    return result


def _replace_optional_errors(
    checked: Sequence[tuple[Source, ArtifactResult]],
) -> tuple[tuple[ArtifactResult, ...], tuple[str, ...]]:
    """Replace an error of an optional runtime, such as OpenVINO, by a note: it is no failure.

    Returns:
        (results to report, notes with the errors). Results without outputs and properties are left
        out.
    """
    results = []
    names: dict[str, list[str]] = {}
    for source, result in checked:
        if source.optional and result.error is not None:
            reason = result.error.partition(f"{source.path}: ")[2] or result.error
            names.setdefault(reason, []).append(source.name)
            result = dataclasses.replace(result, error=None)
        if result.outputs or result.properties or result.error is not None:
            results.append(result)
    notes = (
        f"{', '.join(found)}: an optional runtime does not run this file (this is not a failure): "
        f"{reason}"
        for reason, found in names.items()
    )
    return tuple(results), tuple(notes)
