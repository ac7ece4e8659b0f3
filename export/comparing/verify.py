"""Run an exported file on some inputs and compare it with the Keras model it was made from."""

import pathlib
from collections.abc import Callable

import keras
import numpy as np

from keras_norm.export.comparing.reference import Reference
from keras_norm.export.errors import VerificationError
from keras_norm.export.formats.tflite import FUSED_LSTM
from keras_norm.export.results import difference
from keras_norm.export.runners import Arrays, KerasRunner, ONNXRunner, Runner, TFLiteRunner
from keras_norm.export.signature import STEP

OverTime = Callable[[Callable[[Arrays], Arrays], Arrays], Arrays]

CONVERTS_WRONGLY = "one of its layers converts wrongly"
TWIN_DIFFERS = "one of its layers keeps what its config does not say"


def verify_tflite(
    file: pathlib.Path,
    reference: Reference,
    quantize: str | None = None,
    lstms: int = 0,
) -> list[Arrays]:
    """Invoke the file on all cases and on the first again, in a worker process.

    A file can convert, load and allocate, and still fail or be wrong when it runs, or when it
    runs at another shape, or when it keeps state between calls.

    Args:
        file: a TFLite file.
        reference: what the model that it was made from gives.
        quantize: how the file is quantised.
        lstms: how many fused LSTMs the file has at least.

    Returns:
        What the file gives for the cases.

    Raises:
        VerificationError: an output is missing, has another shape, or differs.
        RunnerError: the file does not run.
    """
    with TFLiteRunner(file) as run:
        found = len(run.ops().get(FUSED_LSTM, []))
        if found < lstms:
            raise VerificationError(f"the file has {found} of {lstms} fused LSTMs ({FUSED_LSTM})")
        return _run_all(run, reference, quantize)


def verify_tflite_step(
    file: pathlib.Path, reference: Reference, over_time: OverTime, quantize: str | None = None
) -> list[Arrays]:
    """Run whole sequences through the file's signature `step`, timestep by timestep.

    Args:
        file: a TFLite file.
        reference: what the model that it was made from gives.
        over_time: `Step.over_time` of the model.
        quantize: as for `verify_tflite`.

    Returns:
        What the file gives for the cases.

    Raises:
        VerificationError, RunnerError: as `verify_tflite`.
    """
    with TFLiteRunner(file, STEP) as run:
        answers = [over_time(run, case.inputs) for case, _ in reference.cases]
    for k, actual in enumerate(answers):
        require_same(reference, k, actual, "TFLite's step", quantize)
    return answers


def verify_onnx(file: pathlib.Path, reference: Reference) -> None:
    """Run the file on all cases and on the first again, in a worker process.

    Args:
        file: an ONNX file.
        reference: what the model that it was made from gives.

    Raises:
        VerificationError, RunnerError: as `verify_tflite`.
    """
    with ONNXRunner(file) as run:
        _run_all(run, reference)


def verify_twin(reference: Reference, twin: keras.Model) -> None:
    """Run another model that is to compute the same.

    Args:
        reference: what the model gives.
        twin: the other one.

    Raises:
        VerificationError: an output has another shape, or differs.
    """
    run = KerasRunner(twin)
    for k, (case, _) in enumerate(reference.cases):
        require_same(reference, k, run(case.inputs), "its twin", suspect=TWIN_DIFFERS)


def _run_all(run: Runner, reference: Reference, quantize: str | None = None) -> list[Arrays]:
    """What a file gives for the cases; for the first one also after all others."""
    answers = []
    for k in [*range(len(reference.cases)), 0]:
        answers.append(run(reference.cases[k][0].inputs))
        require_same(reference, k, answers[-1], run.name, quantize)
    return answers[:-1]


def require_same(
    reference: Reference,
    k: int,
    actual: Arrays,
    who: str,
    quantize: str | None = None,
    suspect: str = CONVERTS_WRONGLY,
) -> None:
    """Raise VerificationError unless every output of the model is there, and within its tolerance.

    Args:
        reference: what the model gives.
        k: number of the case.
        actual: what is compared, by output name; others than the model's do not count.
        who: what gave it.
        quantize: as for `verify_tflite`.
        suspect: why it may be something else.
    """
    case, expected = reference.cases[k]
    wanted, received = _without_common_nan(expected, actual)
    wrong = reference.tolerance(k, quantize).failed(wanted, received)
    if wrong is not None and not wrong.problem and reference.widen(k):
        wrong = reference.tolerance(k, quantize).failed(wanted, received)
    if wrong is not None:
        shapes = ", ".join(str(array.shape) for array in case.inputs.values())
        allowed = "" if wrong.problem else f", and {wrong.atol:.2g} is allowed"
        raise VerificationError(
            f"{who} gives something else than the Keras model for inputs of shape {shapes}: "
            f"{difference(wrong)}{allowed}. Either the model is random in inference, or {suspect}"
        )


def _without_common_nan(expected: Arrays, actual: Arrays) -> tuple[Arrays, Arrays]:
    """The outputs that were expected, with 0 where both are NaN, as random inputs may make them."""
    wanted, received = dict(expected), {n: a for n, a in actual.items() if n in expected}
    for name, got in received.items():
        own = wanted[name]
        if got.shape == own.shape and got.dtype.kind == own.dtype.kind == "f":
            nan = np.isnan(own) & np.isnan(got)
            wanted[name], received[name] = np.where(nan, 0.0, own), np.where(nan, 0.0, got)
    return wanted, received
