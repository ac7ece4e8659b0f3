"""Compute a Keras model's outputs for test inputs, and compare exported files with them."""

import dataclasses
import functools
import logging
import math
from collections.abc import Iterable

import keras

from keras_norm.export.compare.arrays import magnitude, without_common_nan
from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS
from keras_norm.export.compare.tolerance import (
    Tolerance,
    coarsest,
    default_share,
    default_tolerance,
)
from keras_norm.export.errors import VerificationError
from keras_norm.export.model.reference_runner import (
    TRAINED,
    TrainedRunner,
    reference_runner,
)
from keras_norm.export.model.rounding import MAGNIFIED, rounding_errors
from keras_norm.export.model.tolerance_factors import layer_depth, model_precision, timestep_counter
from keras_norm.export.model.verification_inputs import Cases, verification_cases
from keras_norm.export.results.output_comparison import OutputComparison
from keras_norm.export.runtimes.runner import Run
from keras_norm.typing import Arrays, TensorLike

logger = logging.getLogger("keras_norm.export")

# Rounding excuses a difference of at most 5% of an output's largest absolute value. A larger
# difference fails even if rounding causes it: a check that accepts it proves nothing.
MOST = 5e-2

WRONG_CONVERSION = "the converter changed the result of a layer"


class Reference:
    """Check the outputs of exported files against a Keras model's outputs for test inputs.

    Args:
        model: a functional or a built sequential model.
        cases: test inputs with the model's outputs, from `verification_cases`.
        random: whether the test inputs are random, and not the user's samples.
    """

    def __init__(self, model: keras.Model, cases: Cases, random: bool = False) -> None:
        self.model, self.cases, self.random = model, cases, random
        self._widened: dict[int, Tolerance] = {}

    def tolerance(self, k: int, quantize: str | None = None) -> Tolerance:
        """Return the tolerance for the outputs of an exported file on the k-th test inputs.

        The tolerance is the default tolerance of `check`, or larger where `first_failure` accepted
        a difference because of rounding. The outputs of a file in 8 bits only have to be finite; a
        later step measures their errors. Integer outputs of a quantized file are not compared:
        rounding may change every integer, and there are too few integers to limit the share that
        differs.

        Args:
            k: index of the test inputs.
            quantize: as for `export_tflite`.
        """
        if quantize in EIGHT_BITS:
            return Tolerance(0.0, dict.fromkeys(self._scales, math.inf), integer_share=1.0)
        default = default_tolerance(coarsest([self._precision, quantize or ""]), *self._size)
        if quantize is None:
            return self._widened.get(k, default)
        return dataclasses.replace(default, integer_share=1.0)

    def verify(
        self,
        run: Run,
        who: str,
        quantize: str | None = None,
        suspect: str = WRONG_CONVERSION,
        numbers: Iterable[int] | None = None,
    ) -> list[Arrays]:
        """Run a function on the test inputs, and compare its outputs with those of the Keras model.

        Args:
            run: the function, from inputs by name to outputs by name. Outputs that the
                model does not have are ignored.
            who: the function's name in a message.
            quantize: as for `export_tflite`.
            suspect: a likely cause of differences, for a message.
            numbers: indices of the test inputs to run; None for all.

        Returns:
            The function's outputs for each of the test inputs.

        Raises:
            VerificationError: an output is missing, has another shape, or differs by more than its
                tolerance.
        """
        outputs = []
        for k in range(len(self.cases)) if numbers is None else numbers:
            inputs = self.cases[k][0].inputs
            outputs.append(run(inputs))
            failure = self.first_failure(k, outputs[-1], quantize)
            if failure is not None:
                shapes = ", ".join(str(array.shape) for array in inputs.values())
                allowed = "" if failure.problem else f"; the tolerance is {failure.allowed:.2g}"
                if quantize is not None and self.random:
                    suspect = (
                        "the random test inputs are unlike the model's data. Give "
                        "samples={input name: array}"
                    )
                suspect = self._find_other_layer(inputs) or suspect
                raise VerificationError(
                    f"the outputs of {who} differ from the Keras model's for inputs of shape "
                    f"{shapes}: {failure.description}{allowed}. Possible causes: the model is "
                    f"random in inference; it magnifies rounding errors; {suspect}"
                )
        return outputs

    def first_failure(
        self, k: int, actual: Arrays, quantize: str | None = None
    ) -> OutputComparison | None:
        """Return the first output that differs from the Keras model by more than its tolerance.

        A recurrence can magnify rounding errors, and then no fixed tolerance is right. The method
        therefore accepts a difference of the size that rounding alone causes, and logs a warning.

        Args:
            k: index of the test inputs.
            actual: the outputs to compare, by name. Outputs that the model does not have are
                ignored.
            quantize: as for `export_tflite`.

        Returns:
            The comparison of the first wrong output; None if all outputs are right.
        """
        wanted, received = without_common_nan(self.cases[k][1], actual)
        found = self.tolerance(k, quantize).first_failure(wanted, received)
        if found is None or quantize is not None:
            return found
        most = {name: MOST * scale for name, scale in self._scales.items()}
        if Tolerance(0.0, most).first_failure(wanted, received) is not None:
            return found
        wider = self._by_rounding(k, most)
        if wider.first_failure(wanted, received) is not None:
            return found
        self._widened[k] = wider
        logger.warning(
            'model "%s" magnifies rounding errors: for %s, output %r of the exported model differs '
            "by %.2g. The exporter accepts the difference: it is at most %g times the difference "
            "that rounding alone causes in the Keras model",
            self.model.name,
            self.cases[k][0].name,
            found.output,
            found.max_abs,
            MAGNIFIED,
        )
        return None

    def without_random_outputs(self) -> "Reference | None":
        """Return a reference for the deterministic outputs only; None if there are none.

        The model runs again on all test inputs. An output is random if it differs from the first
        run by more than its tolerance.
        """
        again = reference_runner(self.model)
        random = set()
        for k, (case, expected) in enumerate(self.cases):
            first, second = without_common_nan(expected, again(case.inputs))
            failed = self.tolerance(k).first_failure
            random |= {n for n in first if failed({n: first[n]}, {n: second[n]}) is not None}
        if not random:
            return self
        cases = [(c, {n: y for n, y in own.items() if n not in random}) for c, own in self.cases]
        return Reference(self.model, cases, self.random) if cases[0][1] else None

    def _find_other_layer(self, inputs: Arrays) -> str | None:
        """Describe the first layer that computes other outputs on TensorFlow, or return None.

        Without such a layer, or if TensorFlow trained the model, the result is None.
        """
        if self.model not in TRAINED:
            return None
        run = TrainedRunner(self.model)
        layer = run.find_other_layer(inputs, default_share(self._precision, *self._size[:2]))
        if layer is None:
            return None
        return f"layer {layer!r} computes other outputs on TensorFlow than on {run.trained.backend}"

    def _by_rounding(self, k: int, most: dict[str, float]) -> Tolerance:
        case, expected = self.cases[k]
        errors = rounding_errors(self.model, case.inputs, expected)
        before = self.tolerance(k)
        atol = {
            name: max(allowed, min(MAGNIFIED * errors.get(name, 0.0), most[name]))
            for name, allowed in before.atol.items()
        }
        return dataclasses.replace(before, atol=atol)

    @functools.cached_property
    def _precision(self) -> str:
        return model_precision(self.model, self.cases[0][1])

    @functools.cached_property
    def _scales(self) -> dict[str, float]:
        """Largest |value| of every output over all test inputs; 1 for an output of zeros."""
        names = self.cases[0][1]
        return {n: max(magnitude(outputs[n]) for _, outputs in self.cases) or 1.0 for n in names}

    @functools.cached_property
    def _size(self) -> tuple[int, int, dict[str, float]]:
        """Factors of the tolerance: layers, timesteps, and the largest |value| of each output."""
        steps = max(map(timestep_counter(self.model), (case.inputs for case, _ in self.cases)))
        return layer_depth(self.model), steps, self._scales


def make_reference(model: keras.Model, data: TensorLike = None) -> Reference:
    """Run a model on real or random samples, and return its outputs as a reference.

    Args:
        model: as for `verification_cases`.
        data: as for `verification_cases`.
    """
    return Reference(model, verification_cases(model, data), random=data is None)
