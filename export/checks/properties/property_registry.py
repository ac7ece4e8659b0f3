"""The list of all properties that a check tests, such as row independence."""

from collections.abc import Sequence

from keras_norm.export.checks.properties.backends import Backends
from keras_norm.export.checks.properties.builtin_ops import BuiltInOps
from keras_norm.export.checks.properties.concurrency import Concurrency
from keras_norm.export.checks.properties.constants import Constants
from keras_norm.export.checks.properties.input_range import InputRange
from keras_norm.export.checks.properties.masks import Masks
from keras_norm.export.checks.properties.no_nan import NoNaN
from keras_norm.export.checks.properties.padding import LeftPadding, RightPadding
from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.properties.repeat import Repeat
from keras_norm.export.checks.properties.row_independence import RowIndependence
from keras_norm.export.checks.properties.streaming import Streaming
from keras_norm.export.checks.properties.weights import Weights
from keras_norm.export.checks.subject import Subject
from keras_norm.export.checks.wrong_outputs import advise_on_outputs
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.errors import one_line
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult
from keras_norm.export.results.check_result import Finding

# A check tests and reports the properties in this order. `Weights` comes after `Concurrency`: it
# looks for variables that earlier calls changed. `Streaming` is last: it loads the signature `step`
# into the worker process of the artifact. This process cannot run whole sequences afterwards.
PROPERTIES: list[Property] = [
    NoNaN(),
    Backends(),
    RowIndependence(),
    Masks(),
    RightPadding(),
    LeftPadding(),
    Repeat(),
    Concurrency(),
    Weights(),
    BuiltInOps(),
    Constants(),
    InputRange(),
    Streaming(),
]


def register(added: Property) -> None:
    """Register a property, so that every check tests it and every report shows it.

    The property is tested before `Weights`: `Weights` repeats the first call of the check at the
    end.

    Args:
        added: the property, with a name that is not registered.

    Raises:
        ValueError: a property of this name is registered.
    """
    names = [known.name for known in PROPERTIES]
    if added.name in names:
        raise ValueError(f"the property {added.name!r} is registered already: choose another name")
    PROPERTIES.insert(names.index(Weights.name), added)


def property_named(name: str) -> Property | None:
    """Return the property with this name, such as "row independence"; None if there is none."""
    return next((known for known in PROPERTIES if known.name == name), None)


def check_properties(subject: Subject, tolerance: Tolerance) -> tuple[PropertyResult, ...]:
    """Test all properties, such as row independence, of the Keras model or an exported file.

    After an error of the runner, which is stored in `subject.error`, no further property is
    tested.

    Args:
        subject: the Keras model or an artifact, with its recorded outputs.
        tolerance: the tolerance for the subject's outputs. `tolerance.calls` is the tolerance
            between two calls of the subject.
    """
    results: list[PropertyResult] = []
    for known in PROPERTIES:
        if subject.error is not None and (known.needs_runner or not subject.unsafe_ops):
            continue
        try:
            if not known.applies_to(subject):
                continue
            results.append(known.test(subject, tolerance))
        # Catch every error, because a runtime or a user's function may raise any error. The
        # artifact's result shows the error.
        except Exception as error:
            subject.error = one_line(error)
            break
    return tuple(results)


def explains_outputs(*results: ArtifactResult) -> bool:
    """Return whether a failed property, such as "no NaN", is the reason for wrong outputs.

    Args:
        results: the result of the Keras model, and of one artifact if the outputs are its outputs.
    """
    failed = (p.name for result in results for p in result.properties if p.status == "fail")
    return any(known.explains_outputs for known in map(property_named, failed) if known)


def find_advice(
    keras_result: ArtifactResult, artifacts: Sequence[ArtifactResult], on_gap: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Return all advice of a check: on files, on the Keras model, and on BatchNorm's statistics.

    Args:
        keras_result: the result of the Keras model.
        artifacts: the results of the artifacts.
        on_gap: the findings on the train/inference gap, which come last.
    """
    # If a file fails in two runtimes for the same reason, the report shows the advice only once.
    found: dict[tuple[str, str, str], Finding] = {}
    for result in (*artifacts, keras_result):
        findings = list(advise_on_outputs(result, explains_outputs(keras_result, result)))
        for tested in result.properties:
            known = property_named(tested.name)
            if known and (advice := known.advise(tested, result)):
                findings.append(Finding(result.name, tested.detail, advice))
        for finding in findings:
            key = (result.path or result.name, finding.observation, finding.advice)
            found.setdefault(key, finding)
    return (*found.values(), *on_gap)
