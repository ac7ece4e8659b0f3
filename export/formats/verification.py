"""Verify an exported file on test inputs; store the inputs and their outputs with the file."""

import dataclasses
import functools
import logging
import pathlib
import zipfile
from collections.abc import Callable, Mapping, Sequence

import keras

from keras_norm.export.compare.arrays import contains_nan, largest
from keras_norm.export.compare.input_cases import without_text
from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS, PRECISIONS
from keras_norm.export.compare.tolerance import TOLERANCES
from keras_norm.export.errors import VerificationError, one_line
from keras_norm.export.model.judge import Judge, judge_for_export
from keras_norm.export.model.single_step import Step
from keras_norm.export.packages import installed_versions
from keras_norm.export.runtimes.runner import Run, Runner
from keras_norm.export.signature import SERVING_DEFAULT, STEP, text_inputs
from keras_norm.typing import Arrays, TensorLike
from keras_norm_verify.artifact import FILE_NAME, golden_cases_path, hash_files
from keras_norm_verify.golden_cases import GoldenCase, GoldenCases
from keras_norm_verify.golden_cases_file import pack_golden_cases
from keras_norm_verify.saved_model import load_saved_model

logger = logging.getLogger("keras_norm.export")

# Type of `Step.over_time`: a function that runs a single-step model timestep by timestep on whole
# sequences, and returns the outputs.
OverTime = Callable[[Run, Arrays], Arrays]


def verify_file(
    file: pathlib.Path,
    open_file: Callable[[pathlib.Path, str], Runner],
    judge: Judge,
    quantize: str | None = None,
    over_time: OverTime | None = None,
) -> list[Arrays]:
    """Compare a file's outputs with the Keras model's on all test inputs, in a worker process.

    The first test input is run once more at the end, to find a file that keeps state between calls,
    or that fails after another input shape.

    Args:
        file: the exported file.
        open_file: takes the file and the name of a signature; returns a runner.
        judge: the test inputs, with the Keras model's outputs.
        quantize: quantization of the file, as for `export_tflite`.
        over_time: `Step.over_time` of the model, which runs the step signature; None runs
            `serving_default`.

    Returns:
        The file's outputs for each test input.

    Raises:
        VerificationError: an output is missing, has another shape, or differs.
        RunnerError: the file does not run.
    """
    with open_file(file, SERVING_DEFAULT if over_time is None else STEP) as runner:
        who = runner.name if over_time is None else f"{runner.name}'s step"
        run = runner if over_time is None else functools.partial(over_time, runner)
        cases = judge.expected.cases
        return judge.verify(run, who, PRECISIONS[quantize], cases=[*cases, cases[0]])[:-1]


def verify_saved_model(
    folder: pathlib.Path, judge: Judge, over_time: OverTime | None = None
) -> bool:
    """Compare a SavedModel's outputs with the Keras model's on all test inputs, in this process.

    If the SavedModel has a step signature, one test input also runs timestep by timestep. The
    arguments are as for `verify_file`.

    Returns:
        True if all outputs were compared. False if an output of the model is random in inference,
        and was not compared.

    Raises:
        VerificationError: as for `verify_file`.
    """
    saved_model = load_saved_model(folder)

    def run(signature: str, inputs: Arrays) -> Arrays:
        # Catch any exception: a file that does not run can raise many types of error.
        try:
            return dict(saved_model(signature, inputs))
        except Exception as error:
            raise VerificationError(f"the SavedModel does not run: {one_line(error)}") from error

    def verify(judge: Judge) -> None:
        judge.verify(functools.partial(run, SERVING_DEFAULT), "the SavedModel")
        if over_time is not None:
            run_step = functools.partial(over_time, functools.partial(run, STEP))
            case = judge.expected.cases[1]
            judge.verify(run_step, "the SavedModel's step", cases=[case])

    try:
        verify(judge)
    except VerificationError:
        deterministic = judge.without_random_outputs()
        if deterministic is judge:
            raise
        if deterministic is not None:
            verify(deterministic)
        return False
    return True


def judge_if_it_runs(model: keras.Model, data: TensorLike = None) -> Judge | None:
    """Return a `Judge` (test inputs with the model's outputs); None if the model does not run.

    If the model cannot be run, a warning gives the reason. A model of texts also runs on one empty
    text; a warning says if it fails.

    Raises:
        ValueError: the samples in `data` do not match the model's inputs, or the model fails on
            them.
    """
    try:
        judge = judge_for_export(model, data)
        return _with_empty_text(judge) if text_inputs(model) else judge
    except ValueError as error:
        if data is not None:
            raise
        logger.warning(
            'the exporter did not run the file of model "%s", and stored no test inputs and '
            "outputs (golden cases) with the file: %s",
            model.name,
            error,
        )
        return None


def _with_empty_text(judge: Judge) -> Judge:
    """Add a test input of one empty text; if the model fails on this text, log a warning."""
    model, case = judge.model, judge.expected.cases[0]
    if len(case.rows) != 1:
        return judge  # the model has a static batch size of several texts
    empty = without_text(case)
    try:
        outputs = judge.run(empty.inputs)
    # Catch any exception: a layer may raise any for an empty text, which has no timesteps.
    except Exception as error:
        logger.warning(
            'model "%s" fails on a request of one empty text, and so does the exported file: %s. '
            "An empty text has no timesteps. Build TextVectorization with "
            "output_sequence_length=..., or do not send empty texts",
            model.name,
            one_line(error),
        )
        return judge
    if contains_nan(outputs):
        return judge
    cases = (*judge.expected.cases, dataclasses.replace(empty, outputs=outputs))
    return Judge(model, dataclasses.replace(judge.expected, cases=cases), judge.run)


def make_golden_cases(
    judge: Judge,
    step: Step | None = None,
    *,
    step_only: bool = False,
    quantize: str | None = None,
    outputs: Mapping[str, Sequence[Arrays]] | None = None,
) -> GoldenCases:
    """Make the golden cases of an artifact: the test inputs, and the outputs expected for them.

    The expected outputs are the Keras model's, with two exceptions:

    - For a file in eight bits the expected outputs are the file's own. The exporter has already
      compared them with the Keras model's, so a verification checks that they do not change.
    - For a file in float16 the expected integer outputs are the file's own: a rounded weight can
      change an argmax.

    Args:
        judge: the test inputs, with the Keras model's outputs.
        step: the single-step model, or None for a file without a step signature. One golden case
            then runs timestep by timestep.
        step_only: whether the file has the step signature only. Then all golden cases run timestep
            by timestep, with the batch size of the file.
        quantize: quantization of the file, as for `export_tflite`.
        outputs: signature -> the file's outputs for each test input.
    """
    name, cases, in_eight_bits = judge.model.name, judge.expected.cases, quantize in EIGHT_BITS

    def whole_case(k: int, signature: str) -> GoldenCase:
        case, wanted = cases[k], cases[k].outputs
        atol = judge.tolerance(case, PRECISIONS[quantize]).largest_allowed(wanted)
        if quantize and outputs:
            own = outputs[signature][k]
            wanted = {
                n: own[n] if in_eight_bits or y.dtype.kind != "f" else y for n, y in wanted.items()
            }
            if in_eight_bits:
                atol = {n: TOLERANCES["int8"] * largest([y]) for n, y in wanted.items()}
        return GoldenCase(case.name, signature, case.inputs, wanted, atol)

    def stream_case(k: int, step: Step) -> GoldenCase:
        whole, count = whole_case(k, STEP), len(cases[k].rows)
        size = len(cases[0].rows) if step_only else count
        return dataclasses.replace(
            whole,
            name=f"{whole.name}, timestep by timestep" + f", row 0 of {count}" * (size < count),
            inputs={n: a[:size] for n, a in whole.inputs.items()} | step.initial_states(size),
            expected={n: a[:size] for n, a in whole.expected.items()},
            sequences=tuple(step.sequences),
            states=tuple(step.states),
            sequence_outputs=tuple(step.sequence_outputs),
        )

    every = range(len(cases))
    golden_cases = [] if step_only else [whole_case(k, SERVING_DEFAULT) for k in every]
    if step is not None:
        golden_cases += [stream_case(k, step) for k in (every if step_only else [1])]
    source = f'the outputs of the Keras model "{name}"'
    if in_eight_bits:
        source = (
            "the file's outputs at export (in 8 bits, they differ from the Keras model's outputs)"
        )
    elif quantize:
        source += f" to the precision of {quantize}"
    return GoldenCases(name, source, installed_versions(), {}, tuple(golden_cases))


def write_golden_cases(path: pathlib.Path, golden_cases: GoldenCases, inside: bool = False) -> None:
    """Store golden cases (test inputs and their outputs) with an exported file or folder.

    The hashes of the file or folder are stored with the golden cases. With `inside` the golden
    cases are appended to the TFLite file, like TFLite metadata. TFLite readers ignore them there.
    """
    content = pack_golden_cases(dataclasses.replace(golden_cases, hashes=hash_files(path)))
    if inside:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(FILE_NAME, content)
        return
    file = golden_cases_path(path)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
