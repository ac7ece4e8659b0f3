"""Run an exported file on some inputs and compare it with the Keras model it was made from."""

import math
import pathlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_norm.export.comparing.compare import TOLERANCES, compare
from keras_norm.export.comparing.eight_bits import EIGHT_BITS
from keras_norm.export.comparing.elements import largest
from keras_norm.export.comparing.precision import model_precision
from keras_norm.export.comparing.verification_cases import Cases, verification_cases
from keras_norm.export.errors import VerificationError
from keras_norm.export.formats.tflite import FUSED_LSTM
from keras_norm.export.results import difference
from keras_norm.export.runners import Arrays, KerasRunner, ONNXRunner, Runner, TFLiteRunner
from keras_norm.export.signature import STEP, input_specs

OverTime = Callable[[Callable[[Arrays], Arrays], Arrays], Arrays]

CONVERTS_WRONGLY = "one of its layers converts wrongly"
TWIN_DIFFERS = "one of its layers keeps what its config does not say"

# Largest difference, as a share of the largest output. Every layer's weights are off by 2**-11 in
# float16.
TOLERANCE = {None: 1e-4, "float16": 5e-2}


def verify_tflite(
    file: pathlib.Path,
    cases: Cases,
    quantize: str | None = None,
    lstms: int = 0,
) -> list[Arrays]:
    """Invoke the file on all cases and on the first again, in a worker process.

    A file can convert, load and allocate, and still fail or be wrong when it runs, or when it
    runs at another shape, or when it keeps state between calls.

    Args:
        file: a TFLite file.
        cases: of the model that it was made from.
        quantize: how the file is quantised: None and "float16" are compared with the model's
            outputs, in 8 bits it has to give finite numbers where the model does.
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
        return _run_all(run, cases, quantize)


def verify_tflite_step(
    file: pathlib.Path, cases: Cases, over_time: OverTime, quantize: str | None = None
) -> list[Arrays]:
    """Run whole sequences through the file's signature `step`, timestep by timestep.

    Args:
        file: a TFLite file.
        cases: of the model that it was made from.
        over_time: `Step.over_time` of the model.
        quantize: as for `verify_tflite`.

    Returns:
        What the file gives for the cases.

    Raises:
        VerificationError, RunnerError: as `verify_tflite`.
    """
    with TFLiteRunner(file, STEP) as run:
        answers = [over_time(run, case.inputs) for case, _ in cases]
    for (case, expected), actual in zip(cases, answers, strict=True):
        require_all(expected, actual, case.inputs, quantize, "TFLite's step")
    return answers


def verify_onnx(file: pathlib.Path, cases: Cases) -> None:
    """Run the file on all cases and on the first again, in a worker process.

    Args:
        file: an ONNX file.
        cases: of the model that it was made from.

    Raises:
        VerificationError, RunnerError: as `verify_tflite`.
    """
    with ONNXRunner(file) as run:
        _run_all(run, cases)


def verify_twin(model: keras.Model, twin: keras.Model, cases: Cases | None = None) -> None:
    """Run another model that is to compute the same, unless the inputs are texts.

    Args:
        model: a functional or a built sequential model.
        twin: the other one.
        cases: of `verification_cases`; None to make them.

    Raises:
        VerificationError: an output has another shape, or differs.
        ValueError: the model runs at none of the shapes tried.
    """
    if any(spec.dtype == "string" for spec in input_specs(model).values()):
        return
    run = KerasRunner(twin)
    for case, expected in verification_cases(model) if cases is None else cases:
        share = allowed_share(model, expected)
        actual = run(case.inputs)
        require_all(expected, actual, case.inputs, None, "its twin", TWIN_DIFFERS, share)


def allowed_share(model: keras.Model, outputs: Arrays) -> float:
    """How far another form of a model may be off, as a share of an output's largest value.

    Args:
        model: the Keras model.
        outputs: what it gives, by name.
    """
    return max(TOLERANCE[None], TOLERANCES[model_precision(model, outputs)])


def _run_all(run: Runner, cases: Cases, quantize: str | None = None) -> list[Arrays]:
    """What a file gives for the cases; for the first one also after all others."""
    answers = []
    for case, expected in [*cases, cases[0]]:
        answers.append(run(case.inputs))
        require_all(expected, answers[-1], case.inputs, quantize, run.name)
    return answers[:-1]


def require_all(expected: Arrays, actual: Arrays, *arguments: Any) -> None:
    """`require_same` for every output that Keras gives.

    Args:
        expected: what Keras gives, by name.
        actual: what is compared.
        arguments: the others of `require_same`.
    """
    for name, wanted in expected.items():
        require_same(name, wanted, actual.get(name), *arguments)


def require_same(
    name: str,
    wanted: np.ndarray,
    got: np.ndarray | None,
    inputs: Arrays,
    quantize: str | None,
    who: str = "TFLite",
    suspect: str = CONVERTS_WRONGLY,
    share: float | None = None,
) -> None:
    """Raise VerificationError unless one output is what Keras gives.

    Args:
        name: of the output.
        wanted: what Keras gives.
        got: what is compared; None where there is nothing.
        inputs: what both were given.
        quantize: as for `verify_tflite`.
        who: what gave it.
        suspect: why it may be something else.
        share: allowed difference, as a share of the largest value; None for that of `quantize`.
    """
    if quantize is not None and wanted.dtype.kind != "f" and got is not None:
        return  # a rounded weight may turn an argmax or a comparison
    atol = math.inf  # in 8 bits numbers have to be finite, and what they are worth is known later
    if quantize not in EIGHT_BITS:
        atol = (TOLERANCE[quantize] if share is None else share) * largest([wanted])
    received = {} if got is None else {name: got}
    if got is not None and got.shape == wanted.shape and wanted.dtype.kind == "f":
        # What random inputs make NaN of has to be NaN.
        nan = np.isnan(wanted) & np.isnan(got)
        wanted, received = np.where(nan, 0.0, wanted), {name: np.where(nan, 0.0, got)}
    (result,) = compare({name: wanted}, received, 0.0, atol)
    if not result:
        shapes = ", ".join(str(array.shape) for array in inputs.values())
        allowed = "" if result.problem else f", and {atol:.2g} is allowed"
        raise VerificationError(
            f"{who} gives something else than the Keras model for inputs of shape {shapes}: "
            f"{difference(result)}{allowed}. Either the model is random in inference, or {suspect}"
        )
