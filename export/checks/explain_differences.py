"""Explain wrong outputs of files: by rounding, or by the first layer with a wrong output."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import keras

from keras_norm.export.checks.first_difference import find_first_difference
from keras_norm.export.checks.plan import Plan
from keras_norm.export.compare.arrays import magnitude
from keras_norm.export.compare.samples import Case
from keras_norm.export.model.reference import MOST
from keras_norm.export.model.rounding import MAGNIFIED, rounding_errors
from keras_norm.export.results.artifact_result import ArtifactResult, FirstDifference
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.typing import Arrays

# Test inputs with the outputs of the Keras model, by the name of the test inputs.
Calls = Mapping[str, tuple[Case, Arrays]]


def excuse_rounding(
    model: keras.Model, results: Sequence[ArtifactResult], plan: Plan
) -> tuple[tuple[ArtifactResult, ...], tuple[str, ...]]:
    """Accept the differences that rounding explains in edge cases, such as a row of zeros.

    An edge case is a row of zeros, of one value or of extreme values.

    A norm of equal values divides the rounding error by sqrt(epsilon), in the Keras model and in
    its files. This is not an error of a file, and the data have no such row. A difference of more
    than `MOST` times the largest output still fails. A difference for samples of the data is never
    accepted.

    Args:
        model: a functional or Sequential model.
        results: the results of the artifacts.
        plan: the plan of the check.

    Returns:
        (results, a note on each accepted difference).
    """
    edges = {case.name: (case, y) for case, y in zip(plan.edges, plan.edges_expected, strict=True)}
    rounding_by_case: dict[str, dict[str, float]] = {}
    notes = []

    def excuse(comparison: OutputComparison, case_name: str, artifact: str) -> OutputComparison:
        needed = comparison.atol_needed
        if comparison or comparison.problem or case_name not in edges or needed is None:
            return comparison
        case, expected = edges[case_name]
        if case_name not in rounding_by_case:
            rounding_by_case[case_name] = rounding_errors(model, case.inputs, expected)
        output = comparison.output
        error = rounding_by_case[case_name].get(output, 0.0)
        limit = min(MAGNIFIED * error, MOST * magnitude(expected[output]))
        if needed > limit:
            return comparison
        notes.append(
            f"{artifact}: {case_name}: output {output!r} differs by {comparison.max_abs:.2g}. "
            f"Rounding alone changes this output of the Keras model by {error:.2g}, so this is not "
            "a failure."
        )
        return dataclasses.replace(comparison, passed=True, atol=limit, used=needed / limit)

    found = []
    for result in results:
        outputs = []
        for output in result.outputs:
            pairs = zip(output.comparisons, output.cases, strict=True)
            comparisons = tuple(excuse(*pair, result.name) for pair in pairs)
            outputs.append(dataclasses.replace(output, comparisons=comparisons))
        found.append(dataclasses.replace(result, outputs=tuple(outputs)))
    return tuple(found), tuple(notes)


def explain_differences(
    model: keras.Model, results: Sequence[ArtifactResult], plan: Plan, worst_batches: Calls
) -> tuple[ArtifactResult, ...]:
    """Explain each file's wrong outputs: by rounding, or by the first layer with a wrong output.

    If a file fails in two runtimes, both results have one explanation.

    Args:
        model: a functional or Sequential model.
        results: the results of the artifacts.
        plan: the plan of the check.
        worst_batches: the batch of the data with the largest difference, by name of the artifact.

    Returns:
        The results, with `first_difference`.
    """
    calls = zip((*plan.cases, *plan.edges), (*plan.expected, *plan.edges_expected), strict=True)
    planned = {case.name: (case, expected) for case, expected in calls}
    known: dict[str, FirstDifference] = {}
    explained = []
    for result in results:
        name = _smallest_failed(result, planned)
        if name is not None:
            key = result.path or result.name
            if key not in known:
                case, expected = planned.get(name) or worst_batches[result.name]
                known[key] = explain_difference(model, result, name, case, expected)
            result = dataclasses.replace(result, first_difference=known[key])
        explained.append(result)
    return tuple(explained)


def explain_difference(
    model: keras.Model, result: ArtifactResult, name: str, case: Case, expected: Arrays
) -> FirstDifference:
    """Find out whether rounding or a layer causes the wrong outputs of one artifact.

    Args:
        model: a functional or Sequential model.
        result: the result of the artifact.
        name: name of the test inputs in `result`.
        case: the test inputs.
        expected: the outputs of the model for `case`.
    """
    comparisons = [
        output.comparisons[output.cases.index(name)]
        for output in result.outputs
        if name in output.cases
    ]
    explained = explained_by_rounding(model, case, expected, comparisons)
    share = max(result.share, result.rtol)
    return explained or find_first_difference(model, result.path, case.inputs, share)


def explained_by_rounding(
    model: keras.Model, case: Case, expected: Arrays, comparisons: Iterable[OutputComparison]
) -> FirstDifference | None:
    """Check whether rounding in the Keras model explains the differences of an artifact.

    Args:
        model: a functional or Sequential model.
        case: the test inputs.
        expected: the outputs of the model for `case`.
        comparisons: the comparison of each output of the artifact with `expected`.

    Returns:
        A `FirstDifference` with the evidence if rounding explains every difference, else None.
    """
    errors = rounding_errors(model, case.inputs, expected)
    failed = [c for c in comparisons if not c]
    limits = ((c.max_abs, MAGNIFIED * errors.get(c.output, 0.0)) for c in failed)
    # If a difference is NaN, `0 < apart <= limit` is false: rounding does not explain NaN.
    if not all(apart is not None and 0 < apart <= limit for apart, limit in limits):
        return None
    worst = max(failed, key=lambda c: c.max_abs or 0.0)
    reason = (
        f"{case.name}: output {worst.output!r} differs by {worst.max_abs:.2g}, and rounding alone "
        f"changes this output of the Keras model by {errors[worst.output]:.2g}, compared with the "
        "model in float64"
    )
    return FirstDifference(None, reason, stale=False, is_rounding=True)


def _smallest_failed(result: ArtifactResult, planned: Calls) -> str | None:
    """Return the name of the smallest test input for which an output is wrong, or None.

    The smallest test input has the fewest values. The run over all samples is chosen only if no
    other test input fails.
    """
    failed = {
        name
        for output in result.outputs
        for name, comparison in zip(output.cases, output.comparisons, strict=True)
        if not comparison and comparison.max_abs is not None
    }
    sizes = {
        name: sum(array.size for array in case.inputs.values())
        for name, (case, _) in planned.items()
    }
    return min(failed, key=lambda name: sizes.get(name, math.inf), default=None)
