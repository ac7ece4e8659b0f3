"""Run an exported file on some inputs and compare it with the Keras model it was made from."""

import functools
import pathlib
from collections.abc import Callable

from keras_norm.export.errors import VerificationError, one_line
from keras_norm.export.model.reference import Reference
from keras_norm.export.runtimes.runner import Arrays, Runner
from keras_norm.export.signature import SERVING_DEFAULT, STEP
from keras_norm_verify import open_run

OverTime = Callable[[Callable[[Arrays], Arrays], Arrays], Arrays]


def verify_file(
    file: pathlib.Path,
    open_file: Callable[[pathlib.Path, str], Runner],
    reference: Reference,
    quantize: str | None = None,
    over_time: OverTime | None = None,
) -> list[Arrays]:
    """Run the file on all cases and on the first again, in a worker process.

    A file can convert, load and allocate, and still fail or be wrong when it runs, or when it
    runs at another shape, or when it keeps state between calls.

    Args:
        file: the exported file.
        open_file: from the file and the name of a signature to its runner.
        reference: what the model that it was made from gives.
        quantize: how the file is quantized.
        over_time: `Step.over_time` of the model, for the signature `step` in place of the whole.

    Returns:
        What the file gives for the cases.

    Raises:
        VerificationError: an output is missing, has another shape, or differs.
        RunnerError: the file does not run.
    """
    with open_file(file, SERVING_DEFAULT if over_time is None else STEP) as run:
        who = run.name if over_time is None else f"{run.name}'s step"
        answer = run if over_time is None else functools.partial(over_time, run)
        numbers = [*range(len(reference.cases)), 0]
        return reference.verify(answer, who, quantize, numbers=numbers)[:-1]


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
        reference.verify(functools.partial(run, SERVING_DEFAULT), "the SavedModel")
        if over_time is not None:
            step = functools.partial(over_time, functools.partial(run, STEP))
            reference.verify(step, "the SavedModel's step", numbers=[1])

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
