"""A model against another version of it: what changed, and for whom."""

import contextlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_norm.export.checks.artifacts import Artifact
from keras_norm.export.checks.batches import Batch, batches
from keras_norm.export.checks.data_reader import Data
from keras_norm.export.checks.run_artifacts import left_as_it_was
from keras_norm.export.compare.element_differences import Arrays, kind_of
from keras_norm.export.compare.input_cases import LARGE_BATCH, is_whole
from keras_norm.export.compare.merge import merged
from keras_norm.export.compare.version_differences import changes, threshold
from keras_norm.export.formats.open_runner import open_runner
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.report.version_report import VersionReport
from keras_norm.export.results.version_changes import OutputChange


def compare_versions(
    old: keras.Model | str | os.PathLike[str],
    new: keras.Model | Artifact | Sequence[keras.Model | Artifact],
    data: Any,
    *,
    labels: Any = None,
    batch_size: int = LARGE_BATCH,
) -> VersionReport:
    """Say what another version of a model predicts differently, and for which samples.

    Where `check` asks whether a file computes what its model does, this takes two models that are
    meant to differ, and fails nothing. An output with several values on its last axis predicts the
    class of the largest, as integers predict themselves; a single one between 0 and 1 is held
    against 0.5, and with integer labels any other against 0. What is left predicts numbers: so
    does an output with float labels.

    Args:
        old: the version to compare with: a functional or Sequential model, or an exported file.
        new: another version, as a model, a file, or a function from arrays by input name to arrays
            by output name; or several.
        data: as `keras_norm.export.check`, read a part at a time. Where `old` is a file, several
            inputs are given by name.
        labels: as `check`: then it says which predictions became right and which wrong, with the
            metric of both.
        batch_size: most samples of a call.

    Returns:
        A report, with the samples whose predictions changed most.

    Raises:
        ValueError: data that do not fit the old version, a new one with other outputs, or none.
        RunnerError: a file that does not run.

    Example:
    ```python
    report = compare_versions("served/digits/1", "served/digits/2", x_test, labels=y_test)
    report.print()
    ```
    """
    several = [new] if isinstance(new, str | os.PathLike) or not isinstance(new, Sequence) else new
    if not several:
        raise ValueError("There is nothing to compare with. Give at least one new version.")
    if not is_whole(batch_size) or batch_size < 1:
        raise ValueError(f"batch_size must be a whole number from 1 on. Received: {batch_size!r}.")
    for version in (old, *several):
        if not isinstance(version, str | os.PathLike) and not callable(version):
            raise ValueError(
                "A version is a Keras model, or the path of an exported file. "
                f"Received: {version!r}."
            )
    if callable(old) and not hasattr(old, "inputs"):
        raise ValueError(
            "The old version must be a Keras model or an exported file, whose inputs are known. "
            f"Received: {type(old).__name__}."
        )
    samples = 0
    with contextlib.ExitStack() as stack:
        (old_name, before), *others = (_opened(version, stack) for version in (old, *several))
        found: list[tuple[OutputChange, ...]] = [() for _ in others]
        parts = Data(before.inputs, data, labels, ordered=isinstance(old, keras.Model))
        thresholds = _thresholds(before, parts, batch_size)
        for part in parts:
            for batch in batches(part, before, batch_size):
                expected, rows = batch.counted(batch.with_rows), batch.case.rows
                for k, (name, run) in enumerate(others):
                    actual = batch.counted(_fitted(name, run, batch))
                    changed = changes(expected, actual, batch.given, thresholds, rows, part.source)
                    found[k] = tuple(map(merged, found[k], changed)) or changed
            samples += part.samples.count
    if not samples:
        raise ValueError("The data hold no samples. Give at least one.")
    names = (name for name, _ in others)
    return VersionReport(old_name, samples, tuple(zip(names, found, strict=True)))


def _thresholds(run: Any, data: Data, batch_size: int) -> dict[str, float | None]:
    """Where a single value turns from one class to the other, by output.

    What is a share, between 0 and 1, has to be one in all data, which are read for it.
    """
    found: dict[str, float | None] = {}
    labelled: set[str] = set()
    for part in data:
        for batch in batches(part, run, batch_size):
            answer = batch.with_rows
            if not found:
                found = {n: threshold(y, batch.given.get(n)) for n, y in answer.items()}
                labelled = {*batch.labels}
            for name in [name for name, above in found.items() if above == 0.5]:
                if answer[name].min() < 0.0 or answer[name].max() > 1.0:
                    found[name] = 0.0 if name in labelled else None
            if 0.5 not in found.values():
                return found
    return found


def _opened(version: Any, stack: contextlib.ExitStack) -> tuple[str, Any]:
    """A version's name, and its runner."""
    if isinstance(version, keras.Model):
        stack.enter_context(left_as_it_was(version))
        return version.name, KerasRunner(version)
    if callable(version):
        return str(getattr(version, "name", getattr(version, "__name__", "function"))), version
    run = stack.enter_context(open_runner(version))
    return "/".join(pathlib.Path(run.path).parts[-2:]), run


def _fitted(name: str, run: Any, batch: Batch) -> Arrays:
    """What a new version gives, by the old one's names; a single input or output may have another.

    Raises:
        ValueError: other inputs, outputs or shapes.
    """
    inputs, expected = batch.case.inputs, batch.with_rows
    taken = getattr(run, "inputs", inputs)
    if len(taken) == len(inputs) == 1:
        inputs = dict(zip(taken, inputs.values(), strict=True))
    actual = run(inputs)
    if not isinstance(actual, Mapping):
        raise ValueError(
            f"A version returns a dict of arrays by output name. {name} returned "
            f"{type(actual).__name__}."
        )
    if len(actual) == len(expected) == 1:
        actual = dict(zip(expected, actual.values(), strict=True))
    for output, y in expected.items():
        shape = np.shape(actual[output]) if output in actual else None
        if shape != y.shape:
            raise ValueError(
                f"Versions are compared by outputs of the same names and shapes: {name} gives for "
                f"{output!r} {'nothing' if shape is None else shape}, the old version {y.shape}."
            )
    arrays = {output: np.asarray(actual[output]) for output in expected}
    for output, array in arrays.items():
        if kind_of(array) is None:
            raise ValueError(
                f"Versions are compared by numbers: {name} gives {array.dtype} for {output!r}."
            )
    return arrays
