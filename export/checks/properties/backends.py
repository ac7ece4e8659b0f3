"""Define the property "backends": TensorFlow and the training backend give equal outputs."""

from keras_norm.export.checks.properties.property import Property
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.reference_runner import TrainedRunner
from keras_norm.export.results.artifact_result import PropertyResult


class Backends(Property):
    """Test whether a model trained on JAX or PyTorch gives equal outputs on TensorFlow.

    An exported file has the operations of the model on TensorFlow. The check compares the file with
    the model on the backend that trained the model.
    """

    name = "backends"
    meaning = "the model computes other outputs on TensorFlow than on the backend that trained it"
    advice = "Write the layer with keras.ops, so that it computes equal outputs on every backend."
    explains_outputs = True

    def applies_to(self, subject: Subject) -> bool:
        """Return whether a backend other than TensorFlow trained the Keras model."""
        return subject.is_keras_model and isinstance(subject.run, TrainedRunner)

    def test(self, subject: Subject, tolerance: Tolerance) -> PropertyResult:
        """Compare outputs on TensorFlow with outputs on the backend that trained the model."""
        run = subject.run
        assert isinstance(run, TrainedRunner)
        on_tensorflow = KerasRunner(run.model)
        for case in subject.plan.expected.cases:
            outputs = on_tensorflow(case.inputs)
            worst = tolerance.calls.first_failure(case.outputs, outputs, case.rows)
            if worst is not None:
                share = max(tolerance.share, tolerance.rtol)
                layer = run.find_other_layer(case.inputs, share)
                where = "" if layer is None else f"the first layer that differs is {layer!r}; "
                return self.failed(
                    f"TensorFlow differs from {run.backend}: {where}{case.name}: "
                    f"{worst.description}"
                )
        return self.passed(f"equal outputs on TensorFlow and on {run.backend}")
