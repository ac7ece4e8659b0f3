"""Compare outputs with the expected outputs of a Keras model."""

import dataclasses
import logging
from collections.abc import Iterable

import keras

from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.samples import Case
from keras_norm.export.compare.tolerance import QUANTIZED, Tolerance
from keras_norm.export.errors import VerificationError
from keras_norm.export.model.expected_outputs import expected_for_export
from keras_norm.export.model.reference_runner import TRAINED, TrainedRunner, reference_runner
from keras_norm.export.model.rounding import MAGNIFIED, Rounding
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.runtimes.runner import Run, Runner
from keras_norm.typing import Arrays, TensorLike

logger = logging.getLogger("keras_norm.export")

WRONG_CONVERSION = "the converter changed the result of a layer"


class Judge:
    """Compare the outputs of an exported file or a single-step model with the Keras model's.

    The exporters and `check` use this class: a difference is a rounding error of the Keras model,
    or it is within the tolerance of `expected`, or it is a failure.

    Args:
        model: a functional or a built sequential model.
        expected: test inputs with the model's outputs, and the tolerance.
        run: runner of the model.

    Attributes:
        model: as above.
        expected: as above.
        run: as above.
        rounding: the rounding errors of the model.
    """

    def __init__(self, model: keras.Model, expected: Expected, run: Runner) -> None:
        self.model, self.expected, self.run = model, expected, run
        self.rounding = Rounding(model)
        # The widened `atol` of outputs whose differences rounding explains, by the name of a `Case`
        # and the name of an output.
        self._accepted: dict[str, dict[str, float]] = {}

    def tolerance(self, case: Case, precision: str = "float64") -> Tolerance:
        """Return the tolerance for the given test inputs.

        `verify` has widened the tolerance where rounding explains a larger difference.

        Args:
            case: the test inputs.
            precision: as for `Expected.tolerance`.
        """
        default = self.expected.case_tolerance(case, precision)
        if precision in QUANTIZED:
            return default
        return dataclasses.replace(
            default, atol={**default.atol, **self._accepted.get(case.name, {})}
        )

    def compare(
        self, case: Case, actual: Arrays, precision: str = "float64"
    ) -> list[OutputComparison]:
        """Compare outputs for the given test inputs, and accept differences that rounding explains.

        With a tolerance of the user, no difference is accepted. In a quantized file a difference is
        accepted for an edge case only. NaN at the same position as in the Keras model is not a
        difference.

        Args:
            case: the test inputs.
            actual: outputs by name.
            precision: as for `Expected.tolerance`.
        """
        results = self.tolerance(case, precision).compare(case.outputs, actual, case.rows)
        is_quantized = precision in QUANTIZED and not self.expected.is_edge(case)
        if is_quantized or not self.expected.has_default:
            return results
        return [self.rounding.accept(case, result) for result in results]

    def verify(
        self,
        run: Run,
        who: str,
        precision: str = "float64",
        suspect: str = WRONG_CONVERSION,
        cases: Iterable[Case] | None = None,
    ) -> list[Arrays]:
        """Run a function on the test inputs, and compare its outputs with the Keras model.

        A difference that rounding explains is accepted, with a warning.

        Args:
            run: the function, from inputs by name to outputs by name. Outputs that the
                model does not have are ignored.
            who: the function's name in a message.
            precision: as for `Expected.tolerance`.
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
            own = {name: y for name, y in outputs[-1].items() if name in case.outputs}
            for result in self.compare(case, own, precision):
                if not result:
                    if precision in QUANTIZED and self.expected.random:
                        suspect = (
                            "the random test inputs are unlike the model's data. Give "
                            "samples={input name: array}"
                        )
                    raise VerificationError(self._describe(case, result, who, suspect))
                if result.rounding is not None:
                    self._accept(case, result)
        return outputs

    def without_random_outputs(self) -> "Judge | None":
        """Return a `Judge` that compares deterministic outputs only; None if all are random.

        The model runs again on all test inputs. An output is random if it differs from the first
        run by more than its tolerance.
        """
        expected, random = self.expected, set()
        for case in expected.cases:
            outputs, failed = self.run(case.inputs), self.tolerance(case).first_failure
            random |= {
                n for n, y in case.outputs.items() if failed({n: y}, {n: outputs[n]}) is not None
            }
        if not random:
            return self
        known = {name: scale for name, scale in expected.scales.items() if name not in random}
        cases = tuple(
            dataclasses.replace(case, outputs={name: case.outputs[name] for name in known})
            for case in expected.cases
        )
        if not known:
            return None
        deterministic = dataclasses.replace(expected, cases=cases, scales=known)
        return Judge(self.model, deterministic, self.run)

    def _accept(self, case: Case, result: OutputComparison) -> None:
        """Accept a difference that rounding causes: widen the tolerance, and log a warning."""
        self._accepted.setdefault(case.name, {})[result.output] = result.atol
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

    def _describe(self, case: Case, failure: OutputComparison, who: str, suspect: str) -> str:
        """Describe a difference in outputs, for an error message.

        For a model of another backend, such as JAX, the message names the first layer whose outputs
        are different on TensorFlow.
        """
        shapes = ", ".join(str(array.shape) for array in case.inputs.values())
        allowed = "" if failure.problem else f"; the tolerance is {failure.allowed:.2g}"
        if self.model in TRAINED:
            run = TrainedRunner(self.model)
            layer = run.find_other_layer(case.inputs, self.expected.share(self.expected.precision))
            if layer is not None:
                suspect = (
                    f"layer {layer!r} computes other outputs on TensorFlow than on {run.backend}"
                )
        return (
            f"the outputs of {who} differ from the Keras model's for inputs of shape {shapes}: "
            f"{failure.description}{allowed}. Possible causes: the model is random in inference; "
            f"it magnifies rounding errors; {suspect}"
        )


def judge_for_export(model: keras.Model, data: TensorLike = None) -> Judge:
    """Run a model on real or random samples, and return a `Judge` with its outputs.

    Args:
        model: as for `expected_for_export`.
        data: as for `expected_for_export`.
    """
    run = reference_runner(model)
    return Judge(model, expected_for_export(model, data, run), run)
