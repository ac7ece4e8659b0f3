"""Eight bits: how far off values may be, and be of use all the same.

::

    sqrt(mean((y' - y)^2)) <= 1/4 sqrt(mean((y - mean over the samples of y)^2))

for every output y of real numbers, y' that of the file, which has to be finite. Integers are not
compared, as a rounded weight may turn an argmax; where there is nothing else, a quarter of them may
be others. The exporter and `check` both judge by it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_norm.export.compare.element_differences import kind_of, wide
from keras_norm.export.compare.tolerance import TURNED, Tolerance
from keras_norm.export.results.measurements import Spread

# How a TFLite file is quantised, where its weights have 8 bits.
EIGHT_BITS = ("dynamic", "int8", "int16x8")
# Largest error, as a share of how much an output varies: classifiers of digits and of questions
# lost up to 3 points of accuracy below it, and from 11 to 26 beyond.
USEFUL = 0.25
# Error that deserves a warning, as such a share: 1% of the variance, or 20 dB below the output.
# Classifiers lost no more than 1 point of accuracy below it; in sound such noise is heard.
COSTLY = 0.1


def useful(spreads: Iterable[Spread]) -> Tolerance:
    """The rule for outputs that vary as these do.

    Args:
        spreads: of each output, over all samples; several of an output where rows differ in shape.
    """
    found: dict[str, list[Spread]] = {}
    for spread in spreads:
        found.setdefault(spread.output, []).append(spread)
    limits = {n: float(np.float32(USEFUL * _variation(own))) for n, own in found.items()}
    return Tolerance(0.0, {}, turned=1.0 if limits else TURNED, limits=limits)


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
