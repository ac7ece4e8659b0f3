"""Base class of the properties that a check tests, such as "row independence"."""

import abc
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import keras

from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult
from keras_norm.typing import Arrays


class Pair(NamedTuple):
    """The expected and the actual outputs of one call, which must be equal.

    Attributes:
        expected: arrays by output name.
        actual: arrays by output name.
        prefix: the beginning of the text about a difference, such as "batch 7, length 6: ".
        rows: sample number of each row; None to count from 0.
    """

    expected: Arrays
    actual: Arrays
    prefix: str = ""
    rows: Sequence[int] | None = None


class Property(abc.ABC):
    """A property, such as row independence, that a check tests on the Keras model and each file.

    To add a property, write a subclass in a file of this folder, and add it to
    `property_registry.PROPERTIES`. All reports, and the JSON, show the results of all registered
    properties.

    Attributes:
        name: name in reports.
        meaning: the meaning of a failure, as a clause: "running the model changes its weights".
        advice: what to do after a failure.
        needs_runner: whether `test` needs an open runner. If not, the property is tested also for
            a file that is not opened because of its unsafe operations.
        explains_outputs: whether a failure explains wrong outputs: of all files if the Keras model
            fails, or of the one file that fails. The check then searches for no other cause.
    """

    name: str
    meaning: str
    advice: str
    needs_runner: bool = True
    explains_outputs: bool = False

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the check tests this property on the given Keras model or artifact."""
        return True

    @abc.abstractmethod
    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Test whether the Keras model or an exported file has this property; return the result.

        The test reads the recorded outputs, or calls the model or file again. Any exception becomes
        the error of the artifact.

        Args:
            subject: the Keras model or an artifact, with the outputs that are recorded already.
            tolerance: the tolerance between the outputs of the subject and of the Keras model.
                `tolerance.calls` is the tolerance between two calls of the subject.

        Returns:
            The result, made by `compare`, `passed`, `failed`, `differs` or `not_applicable`.
        """

    def advise(self, result: PropertyResult, subject: ArtifactResult) -> str | None:
        """Return advice for the user on a result, or None if the result needs no advice.

        Override it if the advice depends on other results, such as the results of other properties.

        Args:
            result: the result of this property.
            subject: all results of the Keras model or the artifact.
        """
        return result.advice or None

    def make_notes(self, model: keras.Model, results: Sequence[ArtifactResult]) -> tuple[str, ...]:
        """Return notes for the report, such as the names of files that were not tested.

        Args:
            model: the Keras model.
            results: the results of all artifacts.
        """
        return ()

    def compare(self, pairs: Iterable[Pair], detail: str, tolerance: Tolerance) -> PropertyResult:
        """Return "pass" if the expected and actual outputs of every pair are equal, else "fail".

        "pass" has the text `detail`; "fail" names the first output that differs.
        """
        for expected, actual, prefix, rows in pairs:
            worst = tolerance.first_failure(expected, actual, rows)
            if worst is not None:
                return self.failed(prefix + worst.description)
        return self.passed(detail)

    def passed(self, detail: str) -> PropertyResult:
        """Return a "pass" result: the model has the property."""
        return PropertyResult(self.name, "pass", detail)

    def failed(self, detail: str) -> PropertyResult:
        """Return a "fail" result with the advice: the model lacks a property that it must have."""
        return PropertyResult(self.name, "fail", detail, self.meaning, self.advice)

    def differs(self, detail: str, advice: str = "") -> PropertyResult:
        """Return a "differs" result: the model lacks a property, but this is not a failure."""
        return PropertyResult(self.name, "differs", detail, self.meaning, advice)

    def not_applicable(self, reason: str) -> PropertyResult:
        """Return a "not applicable" result: the property cannot be tested on the model."""
        return PropertyResult(self.name, "not applicable", reason)
