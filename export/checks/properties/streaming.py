"""Define the property "streaming": one call for each timestep gives the right outputs."""

from collections.abc import Sequence

import keras

from keras_norm.export.checks.artifacts import SingleStepRunner
from keras_norm.export.checks.properties.property import Pair, Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.errors import StreamingError
from keras_norm.export.model.find_step import find_step
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult
from keras_norm.export.runtimes.runner import Runner
from keras_norm.export.signature import STEP


class Streaming(Property):
    """Test whether calls of the signature `step`, one for each timestep, give the right outputs.

    The outputs must equal the outputs of one call with the whole sequence.
    """

    name = "streaming"
    meaning = (
        "calls of the step signature, one for each timestep, give other outputs than one call of "
        "the model with the whole sequence"
    )
    advice = "Export the model again with step=True."

    def applies_to(self, subject: Subject) -> bool:
        """Return whether the file has a signature `step`, which computes one timestep."""
        source = subject.source
        if subject.is_keras_model or not source.path:
            return False
        return source.is_single_step or STEP in subject.run.signatures()

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Compare one call of `step` for each timestep with one call for the whole sequence."""
        if isinstance(subject.run, SingleStepRunner):
            return self._run_step(subject, subject.run.step_runner, tolerance)
        worker = getattr(subject.run, "worker", None)
        with subject.source.open(STEP, worker=worker) as step_runner:
            return self._run_step(subject, step_runner, tolerance)

    def _run_step(
        self, subject: Subject, step_runner: Runner, tolerance: Tolerance
    ) -> PropertyResult:
        is_single_step = subject.source.is_single_step
        try:
            step, inputs, expected, timesteps = subject.plan.stream(one_by_one=is_single_step)
        except StreamingError as error:
            return self.not_applicable(
                f"the Keras model cannot run one timestep at a time: {error}"
            )
        names = sorted(step_runner.inputs), sorted(step.inputs | step.states)
        if names[0] != names[1]:
            file_inputs, own_inputs = map(", ".join, names)
            return self.differs(
                f"the step signature has the inputs {file_inputs}, but the single-step model has "
                f"the inputs {own_inputs}: give the recurrent layers names, and export again"
            )
        run = step.every_timestep if is_single_step else step.over_time
        detail = (
            f"one call for each of {timesteps:,} timesteps gives the outputs of the Keras model"
        )
        return self.compare([Pair(expected, run(step_runner, inputs))], detail, tolerance)

    def advise(self, result: PropertyResult, subject: ArtifactResult) -> str | None:
        """Return advice if `step` has wrong outputs, but the outputs for whole sequences are right.

        The report has other advice for wrong outputs for whole sequences.
        """
        if not all(output.passed for output in subject.outputs):
            return None
        return super().advise(result, subject)

    def make_notes(self, model: keras.Model, results: Sequence[ArtifactResult]) -> tuple[str, ...]:
        """Return notes with the names of files whose signature `step` was not compared.

        A file without a step signature is named only if the Keras model supports a step signature.
        """
        ran = [result for result in results if result.path and result.outputs]
        # A file may run in several runtimes, but not every runtime can run its step signature. If
        # one runtime ran it, the note about files without a step signature does not name the file.
        streamed = {result.path for result in ran if result.property(self.name) is not None}
        without: dict[str, str] = {}
        notes: dict[str, str] = {}
        for result in ran:
            streaming = result.property(self.name)
            if result.path not in streamed:
                without.setdefault(result.path, result.name)
            elif streaming is not None and streaming.status == "differs":
                note = f"{result.name}: streaming was not compared: {streaming.detail}"
                notes.setdefault(result.path, note)
        if not without or find_step(model) is None:
            return tuple(notes.values())
        files = ", ".join(without.values())
        note = f"{files}: streaming was not compared, because there is no step signature"
        return note, *notes.values()
