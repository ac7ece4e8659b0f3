"""The result of a check of exported files: failures, advice, and the effect of training mode."""

import dataclasses
import math
from collections.abc import Sequence

from keras_norm.export.results.artifact_result import ArtifactResult, readable_share
from keras_norm.export.results.gap_result import TrainInferenceGap
from keras_norm.export.results.json_dataclass import JsonDataclass
from keras_norm.export.results.output_comparison import largest_known


@dataclasses.dataclass(frozen=True)
class Failure:
    """One reason why a check failed.

    Attributes:
        subject: the artifact's name, or "Keras model".
        check: "run", "values", "gap", or the name of a property.
        detail: the observation, in one line.
        meaning: the meaning of the failure, as a clause.
    """

    subject: str
    check: str
    detail: str
    meaning: str = ""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem that the check found in an artifact, a layer or an output, with advice.

    Attributes:
        subject: the artifact, layer or output that was measured.
        observation: the measured fact.
        advice: the recommended action.
    """

    subject: str
    observation: str
    advice: str


@dataclasses.dataclass(frozen=True)
class CheckResult(JsonDataclass):
    """The result of `check`; `bool(result)` is True if no check failed.

    A quantized file passes within the limit for its precision, and its `status` is "approximate":
    its outputs are not equal to the Keras model's. `OutputResult.errors` has its changed
    predictions and its error.

    Attributes:
        model: name of the Keras model.
        samples: number of samples in the data.
        keras: properties of the Keras model.
        artifacts: one result for every artifact and runner.
        gap: the difference between training mode and inference mode.
        notes: facts that explain a number, and tests that were left out, with the reasons.
        versions: (name, version) pairs of the libraries that ran.
        findings: observations with advice.
        layers: number of layers with weights in series; the default tolerance depends on it.
        timesteps: most timesteps that a recurrent layer ran, 1 without a recurrent layer; the
            default tolerance depends on it.
    """

    NOUN = "report"

    model: str
    samples: int
    keras: ArtifactResult
    artifacts: tuple[ArtifactResult, ...]
    gap: TrainInferenceGap
    notes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    layers: int = 0
    timesteps: int = 1

    def __bool__(self) -> bool:
        return self.passed

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.failures

    @property
    def results(self) -> tuple[ArtifactResult, ...]:
        """The result of the Keras model, and the results of all artifacts."""
        return (self.keras, *self.artifacts)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """All failed checks, each with its reason."""
        found = [f for result in self.results for f in _failures(result)]
        if not self.gap.passed:
            meaning = "the outputs of training mode and inference mode differ by more than max_gap"
            found.append(Failure("Keras model", "gap", self.gap.description, meaning))
        return tuple(found)

    @property
    def status(self) -> str:
        """The result of the check in one word: "pass", "approximate" or "fail".

        "approximate": every check passed, and at least one artifact is quantized.
        """
        if self.failures:
            return "fail"
        return "approximate" if any(r.quantized for r in self.artifacts) else "pass"

    @property
    def verdict(self) -> str:
        """The result of the check in one to three sentences: "PASS: 2 artifacts equal ..."."""
        return ". ".join(self.headline)

    @property
    def headline(self) -> tuple[str, ...]:
        """The result of the check in one to three lines: ("PASS: 2 artifacts equal ...",).

        FAIL names the artifacts that failed. PASS has the largest difference. APPROXIMATE has the
        share of changed predictions and the error of the worst quantized file, then the largest
        difference of the artifacts that are not quantized.
        """
        if self.failures:
            subjects = {failure.subject for failure in self.failures}
            failed = [result for result in self.results if result.name in subjects]
            return (f"FAIL: {', '.join(_files(failed))}",)
        exact = [result for result in self.artifacts if not result.quantized]
        quantized = [result for result in self.artifacts if result.quantized]
        if quantized:
            lines = _describe_quantized(quantized, self.samples)
            return (*lines, _describe_exact(exact)) if exact else lines
        runners = "1 runner" if len(exact) == 1 else f"{len(exact)} runners"
        return (f"PASS: {_describe_exact(exact)}, in {runners}, on {self.samples} samples",)


def _files(results: Sequence[ArtifactResult]) -> list[str]:
    """Return the names of the files and functions; a file that ran in two runtimes counts once."""
    found: dict[str, str] = {}
    for result in results:
        found.setdefault(result.path or result.name, result.name)
    return list(found.values())


def _describe_exact(results: Sequence[ArtifactResult]) -> str:
    """Describe the artifacts that equal the Keras model, with their largest difference."""
    count = len(_files(results))
    worst = largest_known(output.max_abs for result in results for output in result.outputs)
    equal = "1 artifact equals" if count == 1 else f"{count} artifacts equal"
    return f"{equal} the Keras model" + (f" within {worst:.2g}" if worst else "")


def _describe_quantized(results: Sequence[ArtifactResult], samples: int) -> tuple[str, ...]:
    """Describe the errors of quantized files: a line about predictions, a line about values."""
    files, several = _files(results), len(results[0].outputs) > 1
    errors = [(o.output, o.errors) for r in results for o in r.outputs if o.errors is not None]
    one = len(files) == 1
    subject = files[0] if one else f"{len(files)} quantized files"
    differ, change, up_to = ("differs", "changes", "") if one else ("differ", "change", "up to ")
    lines = [f"APPROXIMATE: {subject} {differ} from the Keras model"]
    counted = [(name, error) for name, error in errors if error.equal_share is not None]
    if counted:
        name, worst = min(counted, key=lambda pair: pair[1].equal_share or 0.0)
        # Round down: the report then says "100% equal" only if no prediction changed.
        equal = math.floor(1000 * (worst.equal_share or 0.0)) / 10
        of_output = f" of output {name!r}" if several and worst.changed else ""
        most = f"{up_to}{worst.changed}" if worst.changed else "0"
        lines = [
            f"APPROXIMATE: {subject} {change} {most} of {worst.predictions} predictions{of_output} "
            f"({equal:g}% equal)"
        ]
    share = largest_known(error.rms_share for _, error in errors)
    if share is not None:
        largest = largest_known(error.max_abs for _, error in errors)
        lines.append(
            f"Error on {samples} samples: root mean square {up_to}{readable_share(share)} of the "
            f"output's standard deviation, largest error {largest:.2g}"
        )
    return tuple(lines)


def _failures(result: ArtifactResult) -> list[Failure]:
    found = []
    if result.error is not None:
        found.append(Failure(result.name, "run", result.error, "the artifact could not be run"))
    for output in result.outputs:
        if not output.passed:
            case, worst = output.cases[output.worst_case], output.comparisons[output.worst_case]
            detail = f"{case}: {worst.description}"
            if result.first_difference is not None and result.first_difference.layer is not None:
                detail += f"; the first layer that differs is {result.first_difference.layer!r}"
            meaning = "the outputs differ from the outputs of the Keras model"
            found.append(Failure(result.name, "values", detail, meaning))
    failed = (p for p in result.properties if p.status == "fail")
    return found + [Failure(result.name, p.name, p.detail, p.meaning) for p in failed]
