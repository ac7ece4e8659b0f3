"""Run an artifact on its golden cases, and compare the outputs with the expected outputs."""

import os
import pathlib
import sys
from collections.abc import Iterator

import numpy as np

from keras_norm_verify.artifact import find_artifact, hash_files, read_golden_cases
from keras_norm_verify.golden_cases import (
    GoldenCases,
    GoldenCasesError,
    RunSignature,
    require_comparisons,
)
from keras_norm_verify.printable import MAX_PRINTED, printable, printable_error, without_output
from keras_norm_verify.run_over_time import Array
from keras_norm_verify.runtimes import load_artifact

PASSED, FAILED = 0, 1


def verify(
    path: str | os.PathLike[str],
    golden_cases: GoldenCases | str | os.PathLike[str] | None = None,
    run: RunSignature | None = None,
) -> list[str]:
    """Run an artifact on its golden cases, and compare the outputs with the expected outputs.

    The exporters store golden cases with each artifact. `keras-norm verify` and `python -m
    keras_norm_verify` run this function. It needs neither the model nor data: see the guide "Verify
    a file on a device".

    Args:
        path: a SavedModel's folder, a folder of numbered versions (the highest version is run), a
            TFLite file, or a file of another format in `keras_norm_verify.RUNTIMES`.
        golden_cases: the golden cases, or their file; None for the path at which exporters write
            the file.
        run: another runtime, as a function from a signature's name and its inputs to its outputs.

    Returns:
        The failures, one line each; an empty list if the artifact passes.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable, `path` is not an artifact, or
            the runtime is not installed.
        ValueError: an argument has the wrong type.

    Example:
        >>> path = export_tflite(model, "model.tflite")
        >>> verify(path)  # no differences
        []
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be the path of an exported file; received {path!r}")
    if not isinstance(golden_cases, str | os.PathLike | GoldenCases | None):
        received = type(golden_cases).__name__
        raise ValueError(f"golden_cases must be the path of a file; received {received}")
    if run is not None and not callable(run):
        raise ValueError(f"run must be a function (signature, inputs) -> outputs; received {run!r}")
    path = find_artifact(pathlib.Path(path))
    if not isinstance(golden_cases, GoldenCases):
        file = None if golden_cases is None else pathlib.Path(golden_cases)
        golden_cases = read_golden_cases(path, file)
    require_comparisons(golden_cases.cases)
    try:
        hashes = hash_files(path)
    except OSError as error:
        raise GoldenCasesError(f"{path} cannot be read: {printable_error(error)}") from error
    try:
        failures = list(find_failures(golden_cases, run or load_artifact(path)))
    except GoldenCasesError:
        raise
    # A runtime may raise any exception for a damaged file.
    except Exception as error:
        failures = [f"the artifact does not load: {printable_error(error)}"]
    stored = golden_cases.hashes
    changed = [name for name in sorted(hashes | stored) if hashes.get(name) != stored.get(name)]
    if changed:
        names = ", ".join(printable(name or path.name) for name in changed)
        outcome = "It still computes the expected outputs"
        if failures:
            outcome = "It no longer computes the expected outputs"
        failures.insert(
            0,
            f"the artifact was changed after its golden cases were written. {outcome}. "
            f"Changed files: {names}",
        )
    return failures


def find_failures(golden_cases: GoldenCases, run: RunSignature) -> Iterator[str]:
    """Describe each failed output of each golden case in one line.

    Args:
        golden_cases: the golden cases.
        run: the artifact, as a function from a signature's name and its inputs to its outputs.
    """
    for case in golden_cases.cases:
        try:
            actual = {n: np.asarray(array) for n, array in case.compute_outputs(run).items()}
        # A runtime may raise any exception for a file that it cannot run.
        except Exception as error:
            yield f"the artifact fails to run {printable(case.name)}: {printable_error(error)}"
            continue
        for name, expected in case.expected.items():
            if name not in actual:
                yield f"the artifact has no output '{printable(name)}'"
            elif difference := _difference(expected, actual[name], case.atol[name]):
                yield f"at {printable(case.name)}: output '{printable(name)}' {difference}"


def _difference(expected: Array, actual: Array, atol: float) -> str:
    """Describe how an output differs from the expected output; return "" if it does not.

    NaN is equal to an expected NaN.
    """
    if actual.shape != expected.shape:
        return f"has the shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind == "S" and actual.dtype.kind in "SO":
        count = int(np.sum(actual.astype(np.bytes_) != expected))
        return f"differs in {count} of {expected.size} texts" if count else ""
    if actual.dtype.kind not in "biuf" or expected.dtype.kind == "S":
        return f"has the dtype {actual.dtype}, expected {expected.dtype}"
    if expected.dtype.kind != "f":
        # Compare as Python objects: NumPy would round a large integer to compare it with a float.
        count = int(np.sum(actual.astype(object) != expected.astype(object)))
        return f"differs in {count} of {expected.size} values" if count else ""
    e, a = expected.astype("float64"), actual.astype("float64")
    with np.errstate(invalid="ignore"):
        off = np.where((e == a) | (np.isnan(e) & np.isnan(a)), 0.0, np.abs(a - e))
    off = np.where(np.isnan(off), np.inf, off)
    if not off.size or off.max() <= atol:
        return ""
    index = np.unravel_index(int(off.argmax()), e.shape)
    where = ", ".join(map(str, index))
    return (
        f"has the value {a[index]:.6g} at index ({where}), expected {e[index]:.6g}; the difference "
        f"is larger than the tolerance {atol:.2g}"
    )


def print_result(path: str, file: str | None = None) -> int:
    """Verify an artifact, print the result, and return the exit status.

    Args:
        path: an exported file or folder.
        file: file of the golden cases; None for the path at which exporters write it.

    Raises:
        GoldenCasesError: the golden cases are missing or unusable, the runtime is not installed, or
            the result cannot be printed.
    """
    golden_cases = read_golden_cases(
        pathlib.Path(path), None if file is None else pathlib.Path(file)
    )
    with without_output():
        failures = verify(path, golden_cases)
    artifact = printable(path, MAX_PRINTED)
    lines = [f"FAIL: {artifact}: {failure}" for failure in failures]
    if not failures:
        reference, cases = printable(golden_cases.reference), golden_cases.cases
        lines = [f"PASS: {artifact} computes {reference}, in {len(cases)} cases:"]
        lines += [f"  {printable(case.signature)}: {printable(case.name)}" for case in cases]
    try:
        print("\n".join(lines), flush=True)
    except OSError as error:
        # At exit, Python flushes sys.stdout. That would fail too, so remove sys.stdout.
        sys.stdout = None
        raise GoldenCasesError(f"the result cannot be written: {error.strerror}") from error
    return FAILED if failures else PASSED
