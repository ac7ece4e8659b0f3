"""Base class of the properties that a check measures and judges, such as "row independence"."""

import abc
from collections.abc import Sequence
from typing import Generic, TypeVar

import keras

from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult

Measured = TypeVar("Measured")


class Property(abc.ABC, Generic[Measured]):
    """A property that the check measures on the Keras model and on every artifact.

    To add a property, write a subclass in a file of this folder, and add it to
    `property_registry.PROPERTIES`. All reports, and the JSON, show the results of all registered
    properties.

    Attributes:
        name: name in reports.
        meaning: the meaning of a failure, as a clause: "running the model changes its weights".
        advice: what to do after a failure.
        needs_runner: whether `measure` needs an open runner. If not, the property is measured also
            for a file that is not opened because of its unsafe operations.
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
    def measure(self, subject: Subject) -> Measured | PropertyResult:
        """Run the Keras model or the artifact on test inputs, and return the outputs for `judge`.

        Any exception becomes the error of the artifact.

        Args:
            subject: the Keras model or an artifact, with the outputs that are recorded already.

        Returns:
            The argument of `judge`; or `not_applicable(reason)`, which is then the result.
        """

    @abc.abstractmethod
    def judge(self, measured: Measured, tolerance: Tolerance) -> PropertyResult:
        """Judge the outputs that `measure` returned, without running a model.

        Args:
            measured: the result of `measure`.
            tolerance: the tolerance for the subject's outputs. `tolerance.calls` is the tolerance
                between two calls of the subject.

        Returns:
            The result, made by `passed`, `failed`, `differs` or `not_applicable`.
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

    def passed(self, detail: str) -> PropertyResult:
        """Return a "pass" result: the model has the property."""
        return PropertyResult(self.name, "pass", detail)

    def failed(self, detail: str) -> PropertyResult:
        """Return a "fail" result with the advice: the model lacks a property that it must have."""
        return PropertyResult(self.name, "fail", detail, self.meaning, self.advice)

    def differs(self, detail: str, advice: str = "") -> PropertyResult:
        """Return a "differs" result: the model lacks the property, which is not a failure."""
        return PropertyResult(self.name, "differs", detail, self.meaning, advice)

    def not_applicable(self, reason: str) -> PropertyResult:
        """Return a "not applicable" result: the property cannot be tested on the model."""
        return PropertyResult(self.name, "not applicable", reason)
