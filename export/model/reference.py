"""What a model gives, and how far off what is made of it may be."""

import dataclasses
import functools
import logging
import math
from collections.abc import Iterable
from typing import Any

import keras

from keras_norm.export.compare.element_differences import magnitude, without_common_nan
from keras_norm.export.compare.quantization_tolerance import EIGHT_BITS
from keras_norm.export.compare.tolerance import Tolerance, coarsest, default_tolerance
from keras_norm.export.errors import VerificationError
from keras_norm.export.model.depth import layers_in_series, timesteps_of
from keras_norm.export.model.keras_runner import KerasRunner
from keras_norm.export.model.precision import model_precision
from keras_norm.export.model.rounding import MAGNIFIED, rounding
from keras_norm.export.model.verification_inputs import Cases, verification_cases
from keras_norm.export.results.output_comparison import OutputComparison, difference
from keras_norm.export.runtimes.runner import Arrays, Run

logger = logging.getLogger("keras_norm.export")

# The most that rounding may excuse, as a share of an output's largest value: a file that is further
# off shows nothing, whatever the reason.
MOST = 5e-2

CONVERTS_WRONGLY = "one of its layers converts wrongly"


class Reference:
    """A Keras model's answers, to which exporters hold all that they make of it.

    Args:
        model: a functional or a built sequential model.
        cases: of `verification_cases`.
    """

    def __init__(self, model: keras.Model, cases: Cases) -> None:
        self.model, self.cases = model, cases
        self._excused: dict[int, Tolerance] = {}

    def tolerance(self, k: int, quantize: str | None = None) -> Tolerance:
        """How far off case k may be: by what `check` allows, over these cases.

        A file in 8 bits has to give finite numbers: what they are worth is known later. Whole
        numbers of a quantised file are not compared: in so few any may be turned by rounding.

        Args:
            k: number of the case.
            quantize: as for `export_tflite`.
        """
        if quantize in EIGHT_BITS:
            return Tolerance(0.0, dict.fromkeys(self._scales, math.inf), turned=1.0)
        default = default_tolerance(coarsest([self._precision, quantize or ""]), *self._size)
        if quantize is None:
            return self._excused.get(k, default)
        return dataclasses.replace(default, turned=1.0)

    def verify(
        self,
        run: Run,
        who: str,
        quantize: str | None = None,
        suspect: str = CONVERTS_WRONGLY,
        numbers: Iterable[int] | None = None,
    ) -> list[Arrays]:
        """Run cases on what is to give what the model gives.

        Args:
            run: from inputs to outputs by name; others than the model's do not count.
            who: what it is.
            quantize: as for `export_tflite`.
            suspect: why it may give something else.
            numbers: of the cases; None for all.

        Returns:
            What it gives for the cases.

        Raises:
            VerificationError: an output is missing, has another shape, or is off by more than its
                tolerance.
        """
        answers = []
        for k in range(len(self.cases)) if numbers is None else numbers:
            inputs = self.cases[k][0].inputs
            answers.append(run(inputs))
            wrong = self.wrong(k, answers[-1], quantize)
            if wrong is not None:
                shapes = ", ".join(str(array.shape) for array in inputs.values())
                allowed = "" if wrong.problem else f", and {wrong.allowed:.2g} is allowed there"
                raise VerificationError(
                    f"{who} gives something else than the Keras model for inputs of shape "
                    f"{shapes}: {difference(wrong)}{allowed}. Either the model is random in "
                    f"inference, or it magnifies rounding, or {suspect}"
                )
        return answers

    def wrong(self, k: int, actual: Arrays, quantize: str | None = None) -> OutputComparison | None:
        """What is further off than it may be, of all that is to equal the answer to case k.

        A recurrence can magnify rounding, and no tolerance is right then: two ways of computing the
        same are as far from each other as rounding takes either. So a difference of that size is
        excused, and a warning says so.

        Args:
            k: number of the case.
            actual: what is compared, by output name; others than the model's do not count.
            quantize: as for `export_tflite`.

        Returns:
            The first output that is; None where all are right.
        """
        wanted, received = without_common_nan(self.cases[k][1], actual)
        found = self.tolerance(k, quantize).failed(wanted, received)
        if found is None or quantize is not None:
            return found
        most = {name: MOST * scale for name, scale in self._scales.items()}
        if Tolerance(0.0, most).failed(wanted, received) is not None:
            return found
        wider = self._by_rounding(k, most)
        if wider.failed(wanted, received) is not None:
            return found
        self._excused[k] = wider
        logger.warning(
            'model "%s" magnifies rounding: at %s output %r is off by %.2g in what is exported, '
            "within %g times what rounding alone takes it",
            self.model.name,
            self.cases[k][0].name,
            found.output,
            found.max_abs,
            MAGNIFIED,
        )
        return None

    def without_random_outputs(self) -> "Reference | None":
        """The same of those outputs that the model gives again; None where it does so of none."""
        again = KerasRunner(self.model)
        random = set()
        for k, (case, expected) in enumerate(self.cases):
            own, answer = without_common_nan(expected, again(case.inputs))
            tolerance = self.tolerance(k)
            random |= {n for n in own if tolerance.failed({n: own[n]}, {n: answer[n]}) is not None}
        if not random:
            return self
        cases = [(c, {n: y for n, y in own.items() if n not in random}) for c, own in self.cases]
        return Reference(self.model, cases) if cases[0][1] else None

    def _by_rounding(self, k: int, most: dict[str, float]) -> Tolerance:
        case, expected = self.cases[k]
        floor = rounding(self.model, case.inputs, expected)
        before = self.tolerance(k)
        atol = {
            name: max(allowed, min(MAGNIFIED * floor.get(name, 0.0), most[name]))
            for name, allowed in before.atol.items()
        }
        return dataclasses.replace(before, atol=atol)

    @functools.cached_property
    def _precision(self) -> str:
        return model_precision(self.model, self.cases[0][1])

    @functools.cached_property
    def _scales(self) -> dict[str, float]:
        """The largest |value| of every output, in any case; 1 where all are 0."""
        names = self.cases[0][1]
        return {n: max(magnitude(answer[n]) for _, answer in self.cases) or 1.0 for n in names}

    @functools.cached_property
    def _size(self) -> tuple[int, int, dict[str, float]]:
        """What a tolerance grows with, besides the precision."""
        steps = max(map(timesteps_of(self.model), (case.inputs for case, _ in self.cases)))
        return layers_in_series(self.model), steps, self._scales


def make_reference(model: keras.Model, data: Any = None) -> Reference:
    """What a model gives for real samples, or for random ones; see `verification_cases`."""
    return Reference(model, verification_cases(model, data))
