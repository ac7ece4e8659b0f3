"""Run an exported file on test inputs, and compare its outputs with the Keras model's."""

import functools
import pathlib
from collections.abc import Callable

from keras_norm.export.errors import VerificationError, one_line
from keras_norm.export.golden_cases.device_runtimes import open_artifact
from keras_norm.export.model.reference import Reference
from keras_norm.export.runtimes.runner import Arrays, Runner
from keras_norm.export.signature import SERVING_DEFAULT, STEP

OverTime = Callable[[Callable[[Arrays], Arrays], Arrays], Arrays]


def verify_file(
    file: pathlib.Path,
    open_file: Callable[[pathlib.Path, str], Runner],
    reference: Reference,
    quantize: str | None = None,
    over_time: OverTime | None = None,
) -> list[Arrays]:
    """Compare a file's outputs with the Keras model's on all test inputs, in a worker process.

    The first test input is run once more at the end, to find a file that keeps state between calls.
    A file that converts and loads can still fail or return wrong outputs when it runs. Some files
    fail only at a second input shape.

    Args:
        file: the exported file.
        open_file: takes the file and the name of a signature; returns a runner.
        reference: the test inputs, with the Keras model's outputs.
        quantize: quantization of the file, as for `export_tflite`.
        over_time: `Step.over_time` of the model, which runs the step signature; None runs
            `serving_default`.

    Returns:
        The file's outputs for each test input.

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
    """Compare a SavedModel's outputs with the Keras model's on all test inputs, in this process.

    If the SavedModel has a step signature, one test input also runs timestep by timestep.

    Args:
        folder: a SavedModel.
        reference: the test inputs, with the Keras model's outputs.
        over_time: `Step.over_time` of the model, or None for a SavedModel without a step signature.

    Returns:
        True if all outputs were compared. False if an output of the model is random in inference,
        and was not compared.

    Raises:
        VerificationError: as `verify_file`.
    """
    served = open_artifact(folder)

    def run(signature: str, inputs: Arrays) -> Arrays:
        # TensorFlow may raise any exception for a file that does not run.
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
