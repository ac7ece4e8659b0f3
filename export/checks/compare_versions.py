"""Compare the predictions of two versions of a model."""

import contextlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import keras
import numpy as np

from keras_norm.export.checks.artifacts import Artifact, FunctionRunner, SingleStepRunner
from keras_norm.export.checks.data_measurements import Batch, add_changes, run_batches
from keras_norm.export.checks.data_reader import Data, DataLike
from keras_norm.export.compare.arrays import kind_of
from keras_norm.export.compare.input_cases import LARGE_BATCH
from keras_norm.export.compare.prediction_changes import PredictionChanges
from keras_norm.export.compare.samples import is_whole
from keras_norm.export.formats.open_runner import open_runner
from keras_norm.export.model.keras_runner import KerasRunner, restored_variables
from keras_norm.export.model.load_model import load_model
from keras_norm.export.model.reference_runner import TrainedRunner, reference_runner
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import STEP
from keras_norm.typing import Arrays


def compare_versions(
    old: keras.Model | str | os.PathLike[str],
    new: keras.Model | Artifact | Sequence[keras.Model | Artifact],
    data: DataLike,
    *,
    labels: DataLike = None,
    batch_size: int = LARGE_BATCH,
) -> VersionReport:
    """Compare the predictions of new versions of a model with the predictions of an old version.

    The versions are expected to differ, so no difference is a failure. Use
    `keras_norm.export.check` to test whether a file computes the outputs of its model.

    The outputs and labels define the prediction:

    - Several floats on the last axis predict the class with the largest value. With one integer
      label for each float, each float predicts a class.
    - An integer output predicts the integer.
    - A single float that lies between 0 and 1 in all data predicts a class, with the threshold 0.5.
    - Any other single float with integer labels predicts a class, with the threshold 0.
    - Other floats, and floats with float labels, predict numbers. Float labels of a probability
      distribution, such as one-hot labels, do not change its class.

    With integer labels the metric is the accuracy, without labels below 0, which mark padding. With
    float labels it is the mean squared error.

    Args:
        old: the old version: a functional or Sequential model, or the path of a .keras file or of
            an exported file.
        new: a new version: a model, the path of a .keras file or of an exported file, or a function
            that maps arrays by input name to arrays by output name; or a list of new versions.
            A single-step file runs whole sequences, if a version is a Keras model.
        data: samples, as for `keras_norm.export.check`, read one part at a time. If `old` is a
            file with several inputs, give arrays by input name.
        labels: as for `keras_norm.export.check`. With integer labels, the report counts the
            predictions that became right or wrong.
        batch_size: largest batch size.

    Returns:
        A `VersionReport` with the samples whose predictions changed most.

    Raises:
        ValueError: the data do not fit the old version, a new version has other outputs, or there
            is no new version; a .keras file cannot be loaded; or a file runs one timestep, and no
            version is a Keras model.
        OSError: a .keras file or a file of data does not exist.
        RunnerError: a file does not run.

    Example:
        >>> old = export_saved_model(model, "served/digits", version=1)
        >>> new = export_saved_model(model, "served/digits", version=2)
        >>> report = compare_versions(old, new, x_test, labels=y_test)
        >>> report.old, report.samples
        ('digits/1', 8)
    """
    if isinstance(new, str | bytes | os.PathLike) or not isinstance(new, Sequence):
        new = [new]
    if not new:
        raise ValueError(
            "The list of new versions is empty. Give at least one new version of the model."
        )
    if not is_whole(batch_size) or batch_size < 1:
        raise ValueError(f"batch_size must be an integer, 1 or larger. Received: {batch_size!r}.")
    for version in (old, *new):
        is_version = isinstance(version, str | os.PathLike) or callable(version)
        if not is_version or isinstance(version, type):
            raise ValueError(
                "A version must be a Keras model, the path of a .keras file or of an exported "
                f"file, or a function. Received: {version!r}."
            )
    if callable(old) and not isinstance(old, keras.Model) and not hasattr(old, "inputs"):
        raise ValueError(
            "The old version must be a Keras model or an exported file, because a function does "
            f"not name its inputs. Received: {type(old).__name__}."
        )
    samples = 0
    with contextlib.ExitStack() as stack:
        (old_name, before), *others = _open_versions((old, *new), stack)
        found: list[dict[str, PredictionChanges]] = [{} for _ in others]
        is_model = isinstance(old, keras.Model) or _is_keras_path(old)
        for part in Data(before.inputs, data, labels, ordered=is_model):
            for batch in run_batches(part, before, batch_size):
                for (name, run), changes in zip(others, found, strict=True):
                    actual = _run_version(name, run, batch)
                    add_changes(changes, batch, actual, batch.case.rows, part.source)
            samples += part.samples.count
    if not samples:
        raise ValueError("The data have no samples. Give at least one sample.")
    results = (tuple(change.result() for change in changes.values()) for changes in found)
    names = (name for name, _ in others)
    return VersionReport(old_name, samples, tuple(zip(names, results, strict=True)))


def _open_versions(
    versions: Sequence[keras.Model | Artifact], stack: contextlib.ExitStack
) -> list[tuple[str, Runner]]:
    """Open all versions of a model; return the name and the function to call of each version.

    A single-step file runs whole sequences, one timestep at a time.

    Raises:
        ValueError: there is a single-step file, and no version is a Keras model. Only the model
            distinguishes sequences and states.
    """
    found = [_open_version(version, stack) for version in versions]
    models = [run.model for _, run in found if isinstance(run, KerasRunner | TrainedRunner)]
    for k, (name, run) in enumerate(found):
        if run.signatures() == [STEP]:
            if not models:
                raise ValueError(
                    f"{name} runs one timestep in a call. Only the Keras model knows which inputs "
                    "are sequences and which are states. Give the Keras model as the old version."
                )
            found[k] = name, SingleStepRunner(models[0], run)
    return found


def _open_version(
    version: keras.Model | Artifact, stack: contextlib.ExitStack
) -> tuple[str, Runner]:
    """Open a version of a model; return its name and a function that runs it on input arrays.

    The name of a file has the name of its folder: "old/model.keras", "digits/1".
    """
    if _is_keras_path(version):
        path = pathlib.Path(version)
        return "/".join(path.parts[-2:]), reference_runner(load_model(path))
    if isinstance(version, keras.Model):
        stack.enter_context(restored_variables(version))
        return version.name, reference_runner(version)
    if callable(version):
        run = version if isinstance(version, Runner) else FunctionRunner(version)
        return run.name, run
    file_runner: Runner = stack.enter_context(open_runner(version))
    return "/".join(pathlib.Path(file_runner.path or "").parts[-2:]), file_runner


def _is_keras_path(version: keras.Model | Artifact) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a version is the path of a .keras file."""
    return isinstance(version, str | os.PathLike) and pathlib.Path(version).suffix == ".keras"


def _run_version(name: str, run: Runner, batch: Batch) -> Arrays:
    """Run a new version on a batch; the keys of its outputs are the old version's output names.

    A new version with one input or one output may have another name for this input or output.

    Raises:
        ValueError: the new version has other inputs, outputs or shapes.
    """
    inputs, expected = batch.case.inputs, batch.row_outputs
    if len(run.inputs) == len(inputs) == 1:
        inputs = dict(zip(run.inputs, inputs.values(), strict=True))
    elif run.inputs and set(run.inputs) != set(inputs):
        raise ValueError(
            "A new version needs the inputs of the old version, with equal names. The old version "
            f"takes {', '.join(inputs)}; {name} takes {', '.join(run.inputs)}."
        )
    actual = run(inputs)
    if not isinstance(actual, Mapping):
        raise ValueError(
            f"A version must return a dict of arrays by output name. {name} returned "
            f"{type(actual).__name__}."
        )
    if len(actual) == len(expected) == 1:
        actual = dict(zip(expected, actual.values(), strict=True))
    for output, y in expected.items():
        shape = np.shape(actual[output]) if output in actual else None
        if shape != y.shape:
            raise ValueError(
                "A new version needs the outputs of the old version, with equal names and shapes. "
                f"The output {output!r} has the shape {y.shape} in the old version, and "
                f"{'does not exist' if shape is None else f'the shape {shape}'} in {name}."
            )
    arrays = {output: np.asarray(actual[output]) for output in expected}
    for output, array in arrays.items():
        if kind_of(array) in (None, "text"):
            raise ValueError(
                f"Outputs must be numbers. The output {output!r} of {name} has the dtype "
                f"{array.dtype}."
            )
    return arrays
