"""Accept differences that rounding explains, for test inputs that are not in the data."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_norm.export.checks.plan import Plan
from keras_norm.export.compare.element_differences import magnitude
from keras_norm.export.model.reference import MOST
from keras_norm.export.model.rounding import MAGNIFIED, rounding
from keras_norm.export.results.artifact_result import ArtifactResult


def excuse_rounding(
    model: Any, results: Sequence[ArtifactResult], plan: Plan
) -> tuple[tuple[ArtifactResult, ...], tuple[str, ...]]:
    """Accept differences that rounding explains, for rows of zeros, of one value or of extremes.

    A norm of equal values divides the rounding error by sqrt(epsilon), in the Keras model and in
    its files. This is no error of a file, and the data have no such row. A difference of more than
    `MOST` times the largest output still fails. So does every difference for samples of the data.

    Args:
        model: a functional or Sequential model.
        results: the results of the artifacts.
        plan: the plan of the check.

    Returns:
        (results, a note on each accepted difference).
    """
    edges = {case.name: (case, y) for case, y in zip(plan.edges, plan.edges_expected, strict=True)}
    known: dict[str, dict[str, float]] = {}
    notes = []

    def excused(comparison: Any, name: str, who: str) -> Any:
        needed = comparison.atol_needed
        if comparison or comparison.problem or name not in edges or needed is None:
            return comparison
        case, expected = edges[name]
        if name not in known:
            known[name] = rounding(model, case.inputs, expected)
        output = comparison.output
        most = MAGNIFIED * known[name].get(output, 0.0)
        most = min(most, MOST * magnitude(expected[output]))
        if needed > most:
            return comparison
        notes.append(
            f"{who}: {name}: output {output!r} differs by {comparison.max_abs:.2g}, and rounding "
            f"alone takes the Keras model {known[name][output]:.2g} away from float64"
        )
        return dataclasses.replace(comparison, passed=True, atol=most, used=needed / most)

    found = []
    for result in results:
        outputs = tuple(
            dataclasses.replace(
                output,
                comparisons=tuple(
                    excused(comparison, name, result.name)
                    for name, comparison in zip(output.cases, output.comparisons, strict=True)
                ),
            )
            for output in result.outputs
        )
        found.append(dataclasses.replace(result, outputs=outputs))
    return tuple(found), tuple(notes)
