"""Eight bits: how far off values may be, and be of use all the same.

::

    sqrt(mean((y' - y)^2)) <= 1/4 sqrt(mean((y - mean over the samples of y)^2))

for every output y of real numbers, y' that of the file, which has to be finite. Integers are not
compared, as a rounded weight may turn an argmax; where there is nothing else, a quarter of them may
be others. The exporter and `check` both judge by it.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_norm.export.comparing import compare
from keras_norm.export.comparing.elements import Arrays, kind_of, wide
from keras_norm.export.comparing.merging import merged
from keras_norm.export.comparing.tolerance import TURNED, judge_turned
from keras_norm.export.results.comparison import Measurement, OutputComparison
from keras_norm.export.results.partial import Spread

# How a TFLite file is quantised, where its weights have 8 bits.
EIGHT_BITS = ("dynamic", "int8", "int16x8")
# Largest error, as a share of how much an output varies: classifiers of digits and of questions
# lost up to 3 points of accuracy below it, and from 11 to 26 beyond.
USEFUL = 0.25


@dataclasses.dataclass(frozen=True)
class Useful:
    """The rule, with the largest root mean square of an error for every output by name."""

    limits: Mapping[str, float]

    def judge(self, found: Measurement) -> OutputComparison:
        """What was measured of an output, judged by the rule.

        Args:
            found: of `keras_norm.export.comparing.compare.measure`.
        """
        result = compare.judge(found, math.inf)
        if result.problem is not None:
            return result
        if found.exact:
            return judge_turned(result, found, 1.0 if self.limits else TURNED)
        limit = self.limits.get(found.output, math.inf)
        # In float32 it is the same however the parts were added up.
        error = float(np.float32(math.sqrt(found.squared / found.count)))
        used = error / limit if limit else math.inf if error else 0.0
        return dataclasses.replace(result, passed=error <= limit, atol=limit, used=used, rms=error)

    def judge_together(self, found: Sequence[Measurement]) -> list[OutputComparison]:
        """Several measurements of an output with one verdict.

        One sample alone may be far off, in a file of use.

        Args:
            found: as for `judge`.
        """
        whole = self.judge(functools.reduce(merged, found))
        results = []
        for own in map(self.judge, found):
            if own.problem is None and whole.problem is None:
                used = own.used if whole.rms is None else whole.used
                own = dataclasses.replace(own, passed=whole.passed, rms=whole.rms, used=used)
            results.append(own)
        return results

    def failed(
        self, expected: Arrays, actual: Arrays, rows: Sequence[int] | None = None
    ) -> OutputComparison | None:
        """The first output that fails, or None; `rows` are the numbers of the samples."""
        results = map(self.judge, compare.measure(expected, actual, 0.0, rows))
        return next((result for result in results if not result), None)


def useful(spreads: Iterable[Spread]) -> Useful:
    """The rule for outputs that vary as these do.

    Args:
        spreads: of each output, over all samples; several of an output where rows differ in shape.
    """
    found: dict[str, list[Spread]] = {}
    for spread in spreads:
        found.setdefault(spread.output, []).append(spread)
    return Useful({n: float(np.float32(USEFUL * _variation(own))) for n, own in found.items()})


def _variation(found: Sequence[Spread]) -> float:
    """How far an output is from its mean over the samples, as a root mean square."""
    if telling := [spread for spread in found if spread.samples > 1]:
        squares = sum(max(_about(s.squares, s.total, s.samples), 0.0) for s in telling)
        return math.sqrt(squares / sum(s.samples * s.total.size for s in telling))
    if len(found) == 1:
        return 0.0
    # No two samples of a shape: then all values of all of them are alike.
    count = sum(s.total.size for s in found)
    squares = _about(sum(s.squares for s in found), sum(s.total.sum() for s in found), count)
    return math.sqrt(max(squares, 0.0) / count)


def _about(squares: float, total: np.ndarray, count: int) -> float:
    """The sum of squares about the mean."""
    return squares - float(np.sum(np.square(total))) / count


def spreads(outputs: Mapping[str, np.ndarray]) -> tuple[Spread, ...]:
    """How the outputs of real numbers vary over their rows.

    Args:
        outputs: (samples, ...) by name, what a model gives for some samples.
    """
    return tuple(
        Spread(name, len(y), wide(y).sum(axis=0), float(np.square(wide(y)).sum()))
        for name, y in outputs.items()
        if kind_of(y) == "float" and y.size
    )
