"""The property "backends": the model has equal outputs on TensorFlow and where it was trained."""

import dataclasses
from collections.abc import Callable, Sequence

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.reference_runner import TrainedRunner
from keras_norm.export.results.artifact_result import PropertyResult
from keras_norm.typing import Arrays


@dataclasses.dataclass(frozen=True)
class BackendOutputs:
    """The outputs of the Keras model on the backend that trained it, and on TensorFlow.

    Attributes:
        backend: the backend that trained the model.
        cases: the test inputs, with the outputs on the backend that trained the model.
        tensorflow: the model's outputs for each of `cases` on TensorFlow.
        find_layer: `TrainedRunner.find_other_layer`.
    """

    backend: str
    cases: Sequence[Case]
    tensorflow: Sequence[Arrays]
    find_layer: Callable[[Arrays, float], str | None]


class Backends(Property[BackendOutputs]):
    """The Keras model computes equal outputs on TensorFlow and on the backend that trained it.

    An exported file has the operations of the model on TensorFlow. It is compared with the model on
    the backend that trained it.
    """

    name = "backends"
    meaning = "the model computes other outputs on TensorFlow than on the backend that trained it"
    advice = "Write the layer with keras.ops, so that it computes equal outputs on every backend."
    explains_outputs = True

    def applies_to(self, subject: Subject) -> bool:
        """Return whether another backend than TensorFlow trained the Keras model."""
        return subject.is_keras_model and isinstance(subject.run, TrainedRunner)

    def measure(self, subject: Subject) -> BackendOutputs:
        """Run the model on TensorFlow for all test inputs."""
        run, plan = subject.run, subject.plan
        assert isinstance(run, TrainedRunner)
        on_tensorflow = KerasRunner(run.model)
        return BackendOutputs(
            run.backend,
            plan.expected.cases,
            [on_tensorflow(case.inputs) for case in plan.expected.cases],
            run.find_other_layer,
        )

    def judge(self, measured: BackendOutputs, tolerance: Tolerance) -> PropertyResult:
        """Compare the outputs. If they differ, find the first layer that differs."""
        for case, tensorflow in zip(measured.cases, measured.tensorflow, strict=True):
            worst = tolerance.calls.first_failure(case.outputs, tensorflow, case.rows)
            if worst is not None:
                share = max(tolerance.share, tolerance.rtol)
                layer = measured.find_layer(case.inputs, share)
                where = "" if layer is None else f"the first layer that differs is {layer!r}; "
                return self.failed(
                    f"TensorFlow differs from {measured.backend}: {where}{case.name}: "
                    f"{worst.description}"
                )
        return self.passed(f"equal outputs on TensorFlow and on {measured.backend}")
