"""Eight bits: how far off values may be, and be of use all the same.

::

    sqrt(mean((y' - y)^2)) <= 1/4 sqrt(mean((y - mean over the samples of y)^2))

for every output y of real numbers, y' that of the file, which has to be finite. Integers are not
compared: a rounded weight may turn an argmax. The exporter and `check` both judge by it.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from keras_norm.export.comparing.cases import Case
from keras_norm.export.comparing.compare import compare
from keras_norm.export.results import OutputComparison, OutputResult

Arrays = dict[str, np.ndarray]

# How a TFLite file is quantised, where its weights have 8 bits.
EIGHT_BITS = ("dynamic", "int8", "int16x8")
# Largest error, as a share of how much an output varies: classifiers of digits and of questions
# lost up to 3 points of accuracy below it, and from 11 to 26 beyond.
USEFUL = 0.25


@dataclasses.dataclass(frozen=True)
class Useful:
    """The rule, with the largest root mean square of an error for every output by name."""

    limits: Mapping[str, float]

    def compare(self, expected: Arrays, actual: Arrays) -> tuple[OutputComparison, ...]:
        """`keras_norm.export.comparing.compare.compare`, judged by the rule.

        Args:
            expected: arrays by output name.
            actual: arrays by output name.
        """
        return tuple(
            result
            if result.problem is not None
            else self._judged(result, expected[result.output], actual[result.output])
            for result in compare(expected, actual, 0.0, math.inf)
        )

    def _judged(self, result: OutputComparison, e: np.ndarray, a: np.ndarray) -> OutputComparison:
        if "float" not in e.dtype.name:
            return dataclasses.replace(result, passed=True)
        limit, error = (
            self.limits.get(result.output, math.inf),
            _rms(np.subtract(a, e, dtype=float)),
        )
        return dataclasses.replace(
            result,
            passed=error <= limit,
            atol=limit,
            used=error / limit if limit else math.inf if error else 0.0,
            rms=error,
        )


def useful(expected: Mapping[str, np.ndarray]) -> Useful:
    """The rule for outputs that vary as these do.

    Args:
        expected: (samples, ...) by output name, what a model gives for some samples.
    """
    return Useful(
        {
            name: USEFUL * _rms(values - values.mean(axis=0, dtype=float))
            for name, values in expected.items()
            if "float" in values.dtype.name
        }
    )


def judge(
    outputs: Sequence[OutputResult],
    cases: Sequence[Case],
    expected: Sequence[Arrays],
    answers: Sequence[Arrays],
    rule: Useful,
) -> tuple[OutputResult, ...]:
    """Judge the outputs of a file by all samples of a length together, masked or not.

    One sample alone may be far off, in a file of use.

    Args:
        outputs: of the file, with a comparison for each case.
        cases: the inputs of each call.
        expected: what the Keras model gives for each.
        answers: what the file gives for each.
        rule: what to judge by.
    """
    return tuple(
        dataclasses.replace(output, comparisons=_judged(output, cases, expected, answers, rule))
        for output in outputs
    )


def _judged(
    output: OutputResult,
    cases: Sequence[Case],
    expected: Sequence[Arrays],
    answers: Sequence[Arrays],
    rule: Useful,
) -> tuple[OutputComparison, ...]:
    name, judged = output.output, list(output.comparisons)
    alike: dict[tuple[int | None, bool], list[int]] = {}
    for k, case in enumerate(cases):
        if judged[k].rms is not None and len(expected[k][name]) == len(case.rows):
            alike.setdefault((case.length, case.masked), []).append(k)
    for together in alike.values():
        # Of a sample that several cases have, each with the same length, one is enough.
        places = {
            (cases[k].name if cases[k].masked else "", row): (k, i)
            for k in together
            for i, row in enumerate(cases[k].rows)
        }
        e, a = (
            {name: np.stack([given[k][name][i] for k, i in places.values()])}
            for given in (expected, answers)
        )
        (verdict,) = rule.compare(e, a)
        for k in together:
            judged[k] = dataclasses.replace(
                judged[k], passed=verdict.passed, used=verdict.used, rms=verdict.rms
            )
    return tuple(judged)


def _rms(array: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=float))))
