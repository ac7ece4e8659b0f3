"""Tests for the properties of a served model: each compares recorded outputs and runs no model."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from keras_norm.export.compare.element_differences import Arrays, without_common_nan
from keras_norm.export.compare.input_cases import PADDING, Case, Companion
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import Property
from keras_norm.export.results.output_comparison import OutputComparison, difference

# Test of concurrent calls: number of threads, of different inputs, and duration in seconds.
THREADS, AT_ONCE, SECONDS = 8, 4, 0.5


def row_independence(
    asked: Sequence[Companion], answers: Sequence[Arrays], tolerance: Tolerance
) -> Property:
    """Check that a row's output depends on that row only.

    Some rows run alone and in a batch with other rows. Their outputs must equal their outputs in
    the first batch.

    Args:
        asked: the batch, then calls with some of its rows (`input_cases.companions`).
        answers: the outputs of each call.
        tolerance: the tolerance for the outputs.
    """
    name = "row independence"
    batch, together = len(asked[0].case.rows), answers[0]
    for output, value in together.items():
        if np.ndim(value) == 0 or len(value) != batch:
            detail = f"output {output!r} of shape {np.shape(value)} has no row for each of {batch}"
            return Property(name, "fail", detail)
    for trial, actual in zip(asked[1:], answers[1:], strict=True):
        place = trial.row if len(trial.case.rows) > 1 else 0
        worst = _failed(tolerance, _rows(together, trial.row), _rows(actual, place))
        if worst is not None:
            # The message names the row already: in the comparison it is always sample 0.
            worst = dataclasses.replace(worst, where=worst.where[1:])
            return Property(name, "fail", f"row {trial.row} {trial.how}: {difference(worst)}")
    if len(asked) == 1:
        return Property(name, "not applicable", "only batches of one row were run")
    rows = len({trial.row for trial in asked[1:]})
    return Property(name, "pass", f"{rows} of {batch} rows, alone and among other rows")


def no_nan(values: Mapping[str, tuple[int, int]]) -> Property:
    """Check that no output of the Keras model is NaN: NaN cannot be compared.

    Args:
        values: (number of values, number of NaN values) by output name.
    """
    name = "no NaN"
    for output, (count, nan) in values.items():
        if nan == count:
            detail = f"output {output!r} is NaN for every sample: nothing was compared"
            return Property(name, "fail", detail)
        if nan:
            return Property(name, "fail", f"output {output!r} is NaN in {nan} of {count} values")
    return Property(name, "pass", "no output is NaN")


def padding(
    side: str, expected: Arrays | str, padded: Arrays | None, tolerance: Tolerance
) -> Property:
    """Check that masked timesteps on one side do not change the outputs at unpadded timesteps.

    Outputs without a time dimension must not change. Output sequences must not change at the
    timesteps of the unpadded sequence. A change from padding on the left is no failure: its status
    is "differs". A model may count timesteps from the start of the padded sequence. Per-timestep
    statistics and position embeddings do so.

    Args:
        side: "right" or "left".
        expected: the outputs without padding; or the reason why padding does not apply.
        padded: the outputs for the padded inputs.
        tolerance: the tolerance for the outputs.
    """
    name = "padding" if side == "right" else "left padding"
    if isinstance(expected, str) or padded is None:
        return Property(name, "not applicable", str(expected))
    kept = slice(-PADDING) if side == "right" else slice(PADDING, None)
    actual = dict(padded)
    for output, value in expected.items():
        longer = actual.get(output)
        if longer is not None and longer.ndim == value.ndim:
            sizes = zip(longer.shape, value.shape, strict=True)
            # Attention scores have two time axes, so every axis that grew is cut.
            cut = [kept if now == before + PADDING else slice(None) for now, before in sizes]
            actual[output] = longer[tuple(cut)]
    worst = _failed(tolerance, expected, actual)
    if worst is not None:
        detail = f"with {PADDING} masked steps on the {side}, {difference(worst)}"
        return Property(name, "fail" if side == "right" else "differs", detail)
    return Property(name, "pass", f"{PADDING} masked steps on the {side} change nothing")


def streaming(
    expected: Arrays | str, actual: Arrays | str, length: int, tolerance: Tolerance
) -> Property:
    """Check that the step signature reproduces the outputs of the model on whole sequences.

    Args:
        expected: the outputs of the model for whole sequences; or the reason why the model has no
            single-step model.
        actual: the outputs of the step signature, called once for each timestep; or the reason why
            the signature does not belong to this model.
        length: total number of timesteps of all sequences.
        tolerance: the tolerance for the outputs.
    """
    name = "streaming"
    if isinstance(expected, str):
        return Property(name, "not applicable", f"the model has no step: {expected}")
    if isinstance(actual, str):
        return Property(name, "differs", actual)
    worst = _failed(tolerance, expected, actual)
    if worst is not None:
        return Property(name, "fail", difference(worst))
    return Property(name, "pass", f"{length:,} timesteps, one call for each")


def again(
    first: Case, other: Case | None, before: Arrays, after: Arrays, tolerance: Tolerance
) -> Property:
    """Check that a repeated call gives equal outputs after other calls.

    With `other=None`, all other calls lie between the two calls. Different outputs then mean that a
    call changed a weight.

    Args:
        first: the inputs of the repeated call.
        other: the inputs of the call in between, of another shape if the model accepts one; None if
            all other calls were in between.
        before: the outputs of the first call.
        after: the outputs of the repeated call.
        tolerance: the tolerance for the outputs.
    """
    if other is None:
        name, what = "weights", "the first call after all others"
        passed = "the first call gives the same after all others"
    else:
        name, what = "repeat", "the same call after another one"
        passed = f"{first.name} again after {other.name}"
    worst = _failed(tolerance, before, after, first.rows)
    if worst is not None:
        return Property(name, "fail", f"{what}: {difference(worst)}")
    return Property(name, "pass", passed)


def concurrency(
    cases: Sequence[Case],
    expected: Sequence[Arrays],
    at_once: tuple[int, Sequence[Arrays], Sequence[Arrays]] | None,
    tolerance: Tolerance,
) -> Property:
    """Check that concurrent calls of one loaded model give the outputs of single calls.

    Args:
        cases: the test inputs, of several shapes.
        expected: the outputs of a single call with each of `cases`.
        at_once: the number of concurrent calls, then the elementwise minimum and maximum of the
            outputs for each of `cases`; None if threads cannot call the runner.
        tolerance: the tolerance for the outputs.
    """
    name = "concurrency"
    if at_once is None:
        return Property(name, "not applicable", "SavedModels only, through the C API")
    calls, *bounds = at_once
    for bound in bounds:
        for case, alone, actual in zip(cases, expected, bound, strict=True):
            worst = _failed(tolerance, alone, actual, case.rows)
            if worst is not None:
                detail = f"{THREADS} threads at once, {case.name}: {difference(worst)}"
                return Property(name, "fail", detail)
    return Property(name, "pass", f"{calls} calls by {THREADS} threads at once")


def unchanged(changed: Sequence[str], count: int) -> Property:
    """Check that inference changed no variable.

    Args:
        changed: names of the changed variables.
        count: number of all variables.
    """
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return Property("weights", "fail", f"inference changed {changed[0]}{more}")
    return Property("weights", "pass", f"all {count} variables hold what they held")


def safe_ops(unsafe: Mapping[str, Sequence[str]]) -> Property:
    """Report that a file was not run because of its unsafe operations.

    An unsafe operation accesses files, the Python process or other machines.

    Args:
        unsafe: names of the nodes by unsafe operation.
    """
    listed = "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in unsafe.items())
    detail = f"it reaches files, the Python process or other machines, so it is not run: {listed}"
    return Property("ops", "fail", detail)


def plain_ops(used: int | None, foreign: Sequence[str]) -> Property:
    """Check that a standard runtime of the format has every operation.

    Args:
        used: number of different operations; None without a file, 0 if the runner cannot list them.
        foreign: operations that a standard runtime lacks.
    """
    if not used:
        reason = "no file" if used is None else "the runner reads other ops than the file's"
        return Property("ops", "not applicable", reason)
    if foreign:
        return Property("ops", "fail", f"ops that a plain runtime lacks: {', '.join(foreign)}")
    return Property("ops", "pass", f"{used} kinds of op, all built in")


def _failed(
    tolerance: Tolerance, expected: Arrays, actual: Arrays, rows: Sequence[int] | None = None
) -> OutputComparison | None:
    """Return the first output that differs, or None; NaN in both calls is not a difference."""
    own, other = without_common_nan(expected, actual)
    return tolerance.failed(own, {**actual, **other}, rows)


def _rows(outputs: Arrays, row: int) -> Arrays:
    return {name: value[row : row + 1] for name, value in outputs.items()}
