"""Make the findings of a check: observations with advice for the user.

One rule decides how a report shows a measurement (docs/design/verdicts.md):

- failure: two results that must agree do not agree, or something could not run. The report is
  false. Every failure has a finding with advice.
- advice: no comparison failed, but the Keras model is worse in inference mode than it needs to be,
  or for inputs such as padding on the left (`gap_findings`, `Property.advise`).
- note: a fact that explains a number, or a limit of this check. The user need not act.
"""

from collections.abc import Iterator, Sequence

from keras_norm.export.checks.properties.backends import differ_between_backends
from keras_norm.export.checks.properties.constants import Constants
from keras_norm.export.checks.properties.no_nan import has_nan
from keras_norm.export.checks.properties.padding import LeftPadding, RightPadding
from keras_norm.export.checks.properties.property_registry import property_named
from keras_norm.export.compare.input_cases import is_edge
from keras_norm.export.model.lost_masks import LostMask
from keras_norm.export.results.artifact_result import ArtifactResult
from keras_norm.export.results.check_result import Finding

RUN_ADVICE = "Correct the cause that the message names, or export the model again."
VALUES_ADVICE = "Export the model again: the outputs are not the outputs of this model."


def findings(
    keras_result: ArtifactResult,
    artifacts: Sequence[ArtifactResult],
    gap_advice: Sequence[Finding],
    lost: Sequence[LostMask] = (),
) -> tuple[Finding, ...]:
    """Return the findings of a check, each with its advice; findings on artifacts come first.

    Args:
        keras_result: the result of the Keras model.
        artifacts: the results of the artifacts.
        gap_advice: the advice on the difference between training mode and inference mode, from
            `keras_norm.export.checks.gap_findings`.
        lost: masks that do not reach a layer which would use them.
    """
    found = [
        (result.path or result.name, finding)
        for result in artifacts
        for finding in _find_in_result(result, keras_result)
    ]
    found += [("", Finding("Keras model", mask.description, mask.advice)) for mask in lost]
    # A lost mask is the cause if padding changes the outputs, so padding needs no other advice.
    left_out = (LeftPadding.name, RightPadding.name) if lost else ()
    found += [("", finding) for finding in _find_in_result(keras_result, keras_result, left_out)]
    found += [("", finding) for finding in gap_advice]
    # If a file fails in two runtimes for the same reason, the report shows one finding.
    unique: dict[tuple[str, str, str], Finding] = {}
    for file, finding in found:
        unique.setdefault((file, finding.observation, finding.advice), finding)
    return tuple(unique.values())


def _find_in_result(
    result: ArtifactResult, keras_result: ArtifactResult, left_out: Sequence[str] = ()
) -> Iterator[Finding]:
    """Yield the findings of one result, without advice on the properties `left_out`."""
    if result.error is not None:
        yield Finding(result.name, result.error, RUN_ADVICE)
    wrong = [c for output in result.outputs for c in output.comparisons if not c]
    if result.first_difference is not None:
        yield _describe_wrong_outputs(result)
    # If the Keras model returns NaN, or differs between backends, its property reports the cause.
    elif wrong and not has_nan(keras_result) and not differ_between_backends(keras_result):
        yield Finding(result.name, wrong[0].description, VALUES_ADVICE)
    for tested in result.properties:
        known = None if tested.name in left_out else property_named(tested.name)
        advice = None if known is None else known.advise(tested, result)
        if advice is not None:
            yield Finding(result.name, tested.detail, advice)


def _describe_wrong_outputs(result: ArtifactResult) -> Finding:
    first = result.first_difference
    assert first is not None
    needed = result.atol_needed
    accept = "" if needed is None else f" (it needs atol {needed:.2g})"
    if first.is_rounding:
        advice = f"Check at the lengths that you serve (lengths=), or give an atol{accept}."
        return Finding(result.name, first.reason, advice)
    layer = "the first layer whose output differs is not known"
    if first.layer is not None:
        layer = f"the first layer whose output differs is {first.layer!r}"
    observation = f"outputs differ, and {layer}: {first.reason}"
    constants = result.property(Constants.name)
    has_wrong_constants = constants is not None and constants.status == "fail"
    if result.quantized and not has_wrong_constants:
        judge = "judge the file by its metric"
        judge = judge if result.metrics else f"give labels= and {judge}"
        advice = f"Quantize less, or {judge}{accept}."
    elif first.stale:
        advice = "Export the model again: the file was made from other weights or another model."
    elif first.stale is False and first.layer is not None:
        advice = (
            f"Correct the layer {first.layer!r}: its exported graph and the Keras layer compute "
            "different outputs."
        )
    else:
        advice = (
            "Export this model again and check the new file; or accept the difference between the "
            f"outputs{accept}."
        )
    failed = _failed_cases(result)
    if failed and all(map(is_edge, failed)):
        observation = (
            f"the outputs are right for all samples of the data, but not for {failed[0]}: "
            f"{observation}"
        )
        advice += (
            " A norm of equal values magnifies rounding errors: use keras_norm.LayerNormalization, "
            "which magnifies them least, or a larger epsilon."
        )
    return Finding(result.name, observation, advice)


def _failed_cases(result: ArtifactResult) -> list[str]:
    """Return the names of the test inputs for which an output differs."""
    return [
        name
        for output in result.outputs
        for name, comparison in zip(output.cases, output.comparisons, strict=True)
        if not comparison
    ]
