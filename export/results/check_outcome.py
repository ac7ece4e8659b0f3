"""The result of a whole check."""

import dataclasses

from keras_norm.export.results.artifact_result import ArtifactResult, Failure, Finding
from keras_norm.export.results.gap_result import TrainInferenceGap
from keras_norm.export.results.json_dataclass import InJson
from keras_norm.export.results.output_comparison import largest_known


@dataclasses.dataclass(frozen=True)
class Outcome(InJson):
    """The result of `check`. Falsy when any check failed.

    Attributes:
        model: name of the Keras model.
        samples: number of samples in the data.
        keras: properties of the Keras model.
        artifacts: one result for every artifact and runner.
        gap: the difference between training mode and inference mode.
        notes: tests that were left out, with the reasons.
        versions: (name, version) pairs of the libraries that ran.
        findings: observations with advice.
        layers: number of layers with weights in series; the default tolerance depends on it.
        timesteps: most timesteps that a recurrent layer ran, 1 without a recurrent layer; the
            default tolerance depends on it.
    """

    CALLED = "report"

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
    def failures(self) -> tuple[Failure, ...]:
        """All failed checks, each with its reason."""
        found = [f for result in (self.keras, *self.artifacts) for f in _failures(result)]
        if not self.gap.passed:
            size = "was not measured" if self.gap.worst is None else f"is {self.gap.worst:.3g}"
            detail = f"the train/inference gap {size}, max_gap is {self.gap.max_gap:.3g}"
            meaning = "the outputs of training mode and inference mode differ by more than max_gap"
            found.append(Failure("Keras model", "gap", detail, meaning))
        return tuple(found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes that the user should read, although they do not fail the check."""
        known = [] if self.gap.verdict == "ok" else [f"train/inference gap {self.gap.verdict}: "]
        return (*(text + self.gap.reason for text in known), *self.notes)

    @property
    def verdict(self) -> str:
        """One line: PASS with the largest difference, or FAIL with the failed artifacts."""
        if self.passed:
            files = len({result.path or result.name for result in self.artifacts})
            equal = "1 artifact equals" if files == 1 else f"{files} artifacts equal"
            count = len(self.artifacts)
            runners = "1 runner" if count == 1 else f"{count} runners"
            found = ((self._largest(by_rms=False), ""), (self._largest(by_rms=True), " in 8 bits"))
            within = " and".join(f" within {worst:.2g}{bits}" for worst, bits in found if worst)
            return f"PASS: {equal} the Keras model{within}, in {runners}, on {self.samples} samples"
        # A file that fails in two runners is named once.
        paths = {result.name: result.path for result in self.artifacts}
        names: dict[str, str] = {}
        for failure in self.failures:
            names.setdefault(paths.get(failure.subject) or failure.subject, failure.subject)
        return f"FAIL: {', '.join(names.values())}"

    def _largest(self, by_rms: bool) -> float | None:
        """Return the largest difference of the artifacts with this `ArtifactResult.by_rms`."""
        judged = (result for result in self.artifacts if result.by_rms == by_rms)
        return largest_known(output.max_abs for result in judged for output in result.outputs)


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
