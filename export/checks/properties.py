"""Properties that a served model needs, each a function of what was asked and what was answered."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from keras_norm.export.compare.element_differences import Arrays, without_common_nan
from keras_norm.export.compare.input_cases import PADDING, Case, Companion
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import Property
from keras_norm.export.results.output_comparison import OutputComparison, difference

# Threads that call at once, with how many different inputs, and for how many seconds.
THREADS, AT_ONCE, SECONDS = 8, 4, 0.5


def row_independence(
    asked: Sequence[Companion], answers: Sequence[Arrays], tolerance: Tolerance
) -> Property:
    """Whether a row's output depends on that row only.

    Some rows run alone, and among other companions, and must give what they gave in the batch.

    Args:
        asked: the batch, and the same rows elsewhere (`cases.companions`).
        answers: what each call gave.
        tolerance: how far the outputs may differ.
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
            # The row is named already: it is sample 0 of every comparison.
            worst = dataclasses.replace(worst, where=worst.where[1:])
            return Property(name, "fail", f"row {trial.row} {trial.how}: {difference(worst)}")
    if len(asked) == 1:
        return Property(name, "not applicable", "a batch of one row alone was run")
    rows = len({trial.row for trial in asked[1:]})
    return Property(name, "pass", f"{rows} of {batch} rows, alone and among other rows")


def no_nan(values: Mapping[str, tuple[int, int]]) -> Property:
    """Whether the Keras model gives numbers, with which others can be compared.

    Args:
        values: how many values each output has, and how many of them are NaN.
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
    """Whether masked steps on one side change nothing that is not padding.

    Outputs without a time dimension must stay; sequences must stay on the steps that were there.
    What masked steps before the data change is no failure, and the status then "differs": a model
    may count its timesteps from the start of the padded sequence, as statistics of every timestep
    and position embeddings do.

    Args:
        side: "right" or "left".
        expected: what the model gives without padding; or why padding does not apply.
        padded: what it gives for the padded inputs.
        tolerance: how far the outputs may differ.
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
            # Attention has time on two axes.
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
    """Whether the signature `step` gives timestep by timestep what the model gives for the whole.

    Args:
        expected: what the model gives for whole sequences; or why it has no step.
        actual: what the steps gave, one after the other; or how the signature is another's.
        length: number of timesteps, of all streams.
        tolerance: how far the outputs may differ.
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
    """Whether a call gives the same again: after one with other data, or after all others.

    After all others it would give something else if a weight were another.

    Args:
        first: what was called twice.
        other: what was called in between, of another shape where the model takes one; None for all.
        before: what the first call gave.
        after: what the last one gave.
        tolerance: how far the answers may differ.
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
    """Whether many threads at once on one loaded model get the answers that each would get alone.

    Args:
        cases: what was asked, of several shapes.
        expected: what each gives alone.
        at_once: how many calls there were, and the lowest and the highest answer to each case; None
            where threads cannot call the runner.
        tolerance: how far the answers may differ.
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
    """Whether every variable holds what it held.

    Args:
        changed: names of those that do not.
        count: how many there are.
    """
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return Property("weights", "fail", f"inference changed {changed[0]}{more}")
    return Property("weights", "pass", f"all {count} variables hold what they held")


def safe_ops(unsafe: Mapping[str, Sequence[str]]) -> Property:
    """A file that is not run, as it reaches files, the Python process or other machines.

    Args:
        unsafe: the operations that do so, with the names of their nodes.
    """
    listed = "; ".join(f"{op} in {', '.join(nodes)}" for op, nodes in unsafe.items())
    detail = f"it reaches files, the Python process or other machines, so it is not run: {listed}"
    return Property("ops", "fail", detail)


def plain_ops(used: int | None, foreign: Sequence[str]) -> Property:
    """Whether every operation is one that the format's plain runtimes have.

    Args:
        used: number of kinds of op; None where there is no file, 0 where they are not seen.
        foreign: those that a plain runtime lacks.
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
    """The first output of a call that differs in another one; NaN in both is no difference."""
    own, other = without_common_nan(expected, actual)
    return tolerance.failed(own, {**actual, **other}, rows)


def _rows(outputs: Arrays, row: int) -> Arrays:
    return {name: value[row : row + 1] for name, value in outputs.items()}
