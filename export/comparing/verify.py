"""Run an exported file on some inputs and compare it with the Keras model it was made from."""

import functools
import pathlib
from collections.abc import Callable

import keras

from keras_norm.export.comparing.reference import Reference
from keras_norm.export.errors import VerificationError, one_line
from keras_norm.export.formats.tflite import FUSED_LSTM
from keras_norm.export.results.comparison import difference
from keras_norm.export.runners import Arrays, KerasRunner, open_runner
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm_verify import open_run

OverTime = Callable[[Callable[[Arrays], Arrays], Arrays], Arrays]

CONVERTS_WRONGLY = "one of its layers converts wrongly"
TWIN_DIFFERS = "one of its layers keeps what its config does not say"


def verify_file(
    file: pathlib.Path,
    reference: Reference,
    quantize: str | None = None,
    lstms: int = 0,
    over_time: OverTime | None = None,
) -> list[Arrays]:
    """Run the file on all cases and on the first again, in a worker process.

    A file can convert, load and allocate, and still fail or be wrong when it runs, or when it
    runs at another shape, or when it keeps state between calls.

    Args:
        file: a TFLite or an ONNX file.
        reference: what the model that it was made from gives.
        quantize: how the file is quantised.
        lstms: how many fused LSTMs the file has at least.
        over_time: `Step.over_time` of the model, for the signature `step` in place of the whole.

    Returns:
        What the file gives for the cases.

    Raises:
        VerificationError: an output is missing, has another shape, or differs.
        RunnerError: the file does not run.
    """
    answers = []
    with open_runner(file, signature_name=SERVING_DEFAULT if over_time is None else STEP) as run:
        found = len(run.ops().get(FUSED_LSTM, []))
        if found < lstms:
            raise VerificationError(f"the file has {found} of {lstms} fused LSTMs ({FUSED_LSTM})")
        who = run.name if over_time is None else f"{run.name}'s step"
        for k in [*range(len(reference.cases)), 0]:
            inputs = reference.cases[k][0].inputs
            answers.append(run(inputs) if over_time is None else over_time(run, inputs))
            require_same(reference, k, answers[-1], who, quantize)
    return answers[:-1]


def verify_saved_model(
    folder: pathlib.Path, reference: Reference, over_time: OverTime | None = None
) -> bool:
    """Run all cases in this process, and one timestep by timestep.

    Args:
        folder: a SavedModel.
        reference: what the model that it was made from gives.
        over_time: `Step.over_time` of the model, where the file has a signature `step`.

    Returns:
        True; False where an output of the model is random in inference, and cannot be compared.

    Raises:
        VerificationError: as `verify_file`.
    """
    served = open_run(folder)

    def run(signature: str, inputs: Arrays) -> Arrays:
        # Whatever TensorFlow raises, the file does not run.
        try:
            return dict(served(signature, inputs))
        except Exception as error:
            raise VerificationError(f"the SavedModel does not run: {one_line(error)}") from error

    def verify(reference: Reference) -> None:
        for k, (case, _) in enumerate(reference.cases):
            require_same(reference, k, run(SERVING_DEFAULT, case.inputs), "the SavedModel")
        if over_time is not None:
            answer = over_time(functools.partial(run, STEP), reference.cases[1][0].inputs)
            require_same(reference, 1, answer, "the SavedModel's step")

    try:
        verify(reference)
    except VerificationError:
        alike = reference.without_random_outputs()
        if alike is reference:
            raise
        if alike is not None:
            verify(alike)
        return False
    return True


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
        quantize: as for `verify_file`.
        suspect: why it may be something else.
    """
    wrong = reference.wrong(k, actual, quantize)
    if wrong is not None:
        inputs = reference.cases[k][0].inputs.values()
        shapes = ", ".join(str(array.shape) for array in inputs)
        allowed = "" if wrong.problem else f", and {wrong.allowed:.2g} is allowed there"
        raise VerificationError(
            f"{who} gives something else than the Keras model for inputs of shape {shapes}: "
            f"{difference(wrong)}{allowed}. Either the model is random in inference, or it "
            f"magnifies rounding, or {suspect}"
        )
