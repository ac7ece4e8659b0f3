"""Give advice on an artifact that could not run, or whose outputs differ from the Keras model.

Each property of the check has its own advice. One rule decides how a report shows a measurement
(docs/design/verdicts.md).
"""

from collections.abc import Iterator

from keras_norm.export.compare.input_cases import names_edge_case
from keras_norm.export.results.artifact_result import ArtifactResult, FirstDifference
from keras_norm.export.results.check_result import Finding

RUN_ADVICE = "Correct the problem that prevents the run, or export the model again."
VALUES_ADVICE = "Export the model again: the outputs are not the outputs of this model."


def advise_on_outputs(result: ArtifactResult, is_explained: bool) -> Iterator[Finding]:
    """Yield advice on an exported file that could not run, or that has wrong outputs.

    Args:
        result: the result of an artifact; the result of the Keras model has no outputs.
        is_explained: whether a property has failed that explains wrong outputs.
    """
    if result.error is not None:
        yield Finding(result.name, result.error, RUN_ADVICE)
    wrong = [(case, comparison) for case, comparison in result.comparisons if not comparison]
    if result.first_difference is not None and not is_explained:
        yield _describe_cause(result, result.first_difference, [case for case, _ in wrong])
    elif wrong and not is_explained:
        yield Finding(result.name, wrong[0][1].description, VALUES_ADVICE)


def _describe_cause(result: ArtifactResult, first: FirstDifference, wrong: list[str]) -> Finding:
    """Return advice for a file with wrong outputs.

    The advice names the cause from `first`: rounding, or a layer. `wrong` has the names of the test
    inputs for which outputs are wrong.
    """
    needed = result.atol_needed
    accept = "" if needed is None else f" (the outputs need an atol of {needed:.2g})"
    if first.is_rounding:
        advice = (
            "Check only the sequence lengths that you serve (give lengths=), or give a larger "
            f"atol{accept}."
        )
        return Finding(result.name, first.reason, advice)
    layer = "not known" if first.layer is None else repr(first.layer)
    observation = (
        f"outputs differ, and the first layer whose output differs is {layer}: {first.reason}"
    )
    advice = _advise_on_layer(result, first, accept)
    if wrong and all(map(names_edge_case, wrong)):
        observation = (
            f"the outputs are right for all samples of the data, but not for {wrong[0]}: "
            f"{observation}"
        )
        advice += (
            " A normalization layer magnifies rounding errors if its input values are equal. Use "
            "keras_norm.LayerNormalization, which magnifies rounding errors least, or use a larger "
            "epsilon."
        )
    return Finding(result.name, observation, advice)


def _advise_on_layer(result: ArtifactResult, first: FirstDifference, accept: str) -> str:
    """Return the advice for wrong outputs, such as to quantize less or to export again.

    `accept` is a text about the atol with which all outputs pass, or "".
    """
    if result.quantized:
        labels = "" if result.metrics else "give labels= and "
        return (
            f"Quantize less; or {labels}accept the file if its accuracy or other metric is good"
            f"{accept}."
        )
    if first.stale:
        return "Export the model again: the file was made from other weights or another model."
    if first.stale is False and first.layer is not None:
        return (
            f"Correct the layer {first.layer!r}: its exported graph and the Keras layer compute "
            "different outputs."
        )
    return (
        "Export this model again and check the new file; or accept the difference between the "
        f"outputs{accept}."
    )
