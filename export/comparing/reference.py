"""What a model gives, and how far off what is made of it may be."""

import dataclasses
import logging
import math
from typing import Any

import keras

from keras_norm.export.comparing.depth import layers_in_series, timesteps_run
from keras_norm.export.comparing.eight_bits import EIGHT_BITS
from keras_norm.export.comparing.elements import largest
from keras_norm.export.comparing.precision import model_precision
from keras_norm.export.comparing.rounding import MAGNIFIED, rounding
from keras_norm.export.comparing.tolerance import Tolerance, coarsest, default_tolerance
from keras_norm.export.comparing.verification_cases import Cases, verification_cases

logger = logging.getLogger("keras_norm.export")


class Reference:
    """A Keras model's answers, to which exporters hold all that they make of it.

    Args:
        model: a functional or a built sequential model.
        cases: of `verification_cases`.
    """

    def __init__(self, model: keras.Model, cases: Cases) -> None:
        self.model, self.cases = model, cases
        self._by_rounding: dict[int, dict[str, float]] = {}

    def tolerance(self, k: int, quantize: str | None = None) -> Tolerance:
        """How far off case k may be: by what `check` allows, but over these cases.

        A file in 8 bits has to give finite numbers: what they are worth is known later. Whole
        numbers of a quantised file are not compared, as a rounded weight may turn an argmax.

        Args:
            k: number of the case.
            quantize: as for `export_tflite`.
        """
        outputs = self.cases[0][1]
        if quantize in EIGHT_BITS:
            return Tolerance(0.0, dict.fromkeys(outputs, math.inf), exact=False)
        default = default_tolerance(
            coarsest([model_precision(self.model, outputs), quantize or ""]),
            layers_in_series(self.model),
            timesteps_run(self.model, (case.inputs for case, _ in self.cases)),
            {name: largest(answer[name] for _, answer in self.cases) for name in outputs},
        )
        atol = dict(default.atol) | self._by_rounding.get(k, {})
        return dataclasses.replace(default, atol=atol, exact=quantize is None)

    def widen(self, *cases: int) -> bool:
        """Let cases be off by what rounding makes of them; False where that is no more in any.

        A recurrence can magnify rounding, and no tolerance is right then: two ways of computing the
        same are as far from each other as either is from float64.

        Args:
            cases: numbers of those of which something differs.
        """
        widened = [self._widened(k) for k in cases]
        return any(widened)

    def _widened(self, k: int) -> bool:
        case, expected = self.cases[k]
        before = self.tolerance(k).atol
        floor = rounding(self.model, case.inputs, expected) or {}
        wider = {n: MAGNIFIED * x for n, x in floor.items() if MAGNIFIED * x > before[n]}
        for name, allowed in wider.items():
            logger.warning(
                'model "%s" magnifies rounding: at %s its output %r differs by %.2g from what it '
                "gives in float64, and what is made of it may by %.2g",
                self.model.name,
                case.name,
                name,
                floor[name],
                allowed,
            )
        self._by_rounding[k] = self._by_rounding.get(k, {}) | wider
        return bool(wider)


def make_reference(model: keras.Model, data: Any = None) -> Reference:
    """What a model gives for real samples, or for random ones; see `verification_cases`."""
    return Reference(model, verification_cases(model, data))
