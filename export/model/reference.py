"""Compare exported files with the expected outputs of a Keras model."""

import dataclasses
import functools
import logging
from collections.abc import Sequence

import keras

from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.samples import Case
from keras_norm.export.errors import VerificationError
from keras_norm.export.model.expected_outputs import expected_for_export
from keras_norm.export.model.reference_runner import (
    TRAINED,
    TrainedRunner,
    reference_runner,
)
from keras_norm.export.model.rounding import MAGNIFIED, Rounding
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.runtimes.runner import Run
from keras_norm.typing import Arrays, TensorLike

logger = logging.getLogger("keras_norm.export")

WRONG_CONVERSION = "the converter changed the result of a layer"


class Reference:
    """A Keras model with its expected outputs, to compare exported files with.

    Args:
        model: a functional or a built sequential model.
        expected: test inputs with the model's outputs.

    Attributes:
        model: the model.
        expected: as above. A case has a wider tolerance after `first_failure` has accepted a
            difference because of rounding.
    """

    def __init__(self, model: keras.Model, expected: Expected) -> None:
        self.model, self.expected = model, expected
        self._rounding = Rounding(model)

    def verify(
        self,
        run: Run,
        who: str,
        quantize: str | None = None,
        suspect: str = WRONG_CONVERSION,
        cases: Sequence[Case] | None = None,
    ) -> list[Arrays]:
        """Run a function on the test inputs, and compare its outputs with the Keras model.

        Args:
            run: the function, from inputs by name to outputs by name. Outputs that the
                model does not have are ignored.
            who: the function's name in a message.
            quantize: as for `export_tflite`.
            suspect: a likely cause of differences, for a message.
            cases: the test inputs to run; None for all.

        Returns:
            The function's outputs for each of the test inputs.

        Raises:
            VerificationError: an output is missing, has another shape, or differs by more than its
                tolerance.
        """
        outputs = []
        for case in self.expected.cases if cases is None else cases:
            outputs.append(run(case.inputs))
            failure = self.first_failure(case, outputs[-1], quantize)
            if failure is not None:
                shapes = ", ".join(str(array.shape) for array in case.inputs.values())
                allowed = "" if failure.problem else f"; the tolerance is {failure.allowed:.2g}"
                if quantize is not None and self.expected.random:
                    suspect = (
                        "the random test inputs are unlike the model's data. Give "
                        "samples={input name: array}"
                    )
                suspect = self._find_other_layer(case.inputs) or suspect
                raise VerificationError(
                    f"the outputs of {who} differ from the Keras model's for inputs of shape "
                    f"{shapes}: {failure.description}{allowed}. Possible causes: the model is "
                    f"random in inference; it magnifies rounding errors; {suspect}"
                )
        return outputs

    def first_failure(
        self, case: Case, actual: Arrays, quantize: str | None = None
    ) -> OutputComparison | None:
        """Return the first output that differs from the Keras model by more than its tolerance.

        A difference that rounding explains is accepted, with a warning.

        Args:
            case: the test inputs.
            actual: the outputs to compare, by name. Outputs that the model does not have are
                ignored.
            quantize: as for `export_tflite`.

        Returns:
            The comparison of the first wrong output; None if all outputs are right.
        """
        tolerance = self.expected.file_tolerance(case, quantize)
        own = {name: y for name, y in actual.items() if name in case.outputs}
        if quantize is not None:
            return tolerance.first_failure(case.outputs, own)
        return tolerance.first_failure(
            case.outputs, own, excuse=functools.partial(self._excuse, case)
        )

    def without_random_outputs(self) -> "Reference | None":
        """Return a reference for the deterministic outputs only; None if there are none.

        The model runs again on all test inputs. An output is random if it differs from the first
        run by more than its tolerance.
        """
        run, expected = reference_runner(self.model), self.expected
        random = set()
        for case in expected.cases:
            outputs, failed = run(case.inputs), expected.file_tolerance(case).first_failure
            random |= {
                n for n, y in case.outputs.items() if failed({n: y}, {n: outputs[n]}) is not None
            }
        if not random:
            return self
        cases = tuple(
            dataclasses.replace(c, outputs={n: y for n, y in c.outputs.items() if n not in random})
            for c in expected.cases
        )
        if not cases[0].outputs:
            return None
        return Reference(self.model, dataclasses.replace(expected, cases=cases))

    def _excuse(self, case: Case, failed: OutputComparison) -> OutputComparison:
        """Accept a difference that rounding explains: widen its tolerance, and log a warning."""
        result = self._rounding.excuse(case, failed)
        if result:
            case.atol[result.output] = result.atol
            logger.warning(
                'model "%s" magnifies rounding errors: for %s, output %r of the exported model '
                "differs by %.2g. The exporter accepts the difference: it is at most %g times the "
                "difference that rounding alone causes in the Keras model",
                self.model.name,
                case.name,
                result.output,
                result.max_abs,
                MAGNIFIED,
            )
        return result

    def _find_other_layer(self, inputs: Arrays) -> str | None:
        """Describe the first layer whose outputs differ between TensorFlow and another backend.

        Return None if no layer differs, or if TensorFlow trained the model.
        """
        if self.model not in TRAINED:
            return None
        run = TrainedRunner(self.model)
        layer = run.find_other_layer(inputs, self.expected.share(self.expected.precision))
        if layer is None:
            return None
        return f"layer {layer!r} computes other outputs on TensorFlow than on {run.backend}"


def make_reference(model: keras.Model, data: TensorLike = None) -> Reference:
    """Run a model on real or random samples, and return its outputs as a reference.

    Args:
        model: as for `expected_for_export`.
        data: as for `expected_for_export`.
    """
    return Reference(model, expected_for_export(model, data))
