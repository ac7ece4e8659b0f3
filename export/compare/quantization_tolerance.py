"""Judge whether the outputs of a file quantized to 8 bits are accurate enough to be useful.

::

    sqrt(mean((y' - y)^2)) <= 1/4 sqrt(mean((y - mean over the samples of y)^2))

Here y is a float output of the Keras model, and y' the file's output, which has to be finite.
Integers are not compared, because a rounded weight may change an argmax. If a model has integer
outputs only, a quarter of the integers may differ. The exporter and `check` both use this rule.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_norm.export.compare.arrays import kind_of, to_float64
from keras_norm.export.compare.tolerance import INTEGER_SHARE, Tolerance
from keras_norm.typing import Array

# Values of the exporter's argument `quantize` for which the weights of a TFLite file have 8 bits.
EIGHT_BITS = ("dynamic", "int8", "int16x8")
# The precision of a file (a key of `tolerance.TOLERANCES`) for each value of the exporter's
# argument `quantize`. The tolerance follows the coarser of two precisions: the file's precision
# and the Keras model's precision. The precision for None is "float64", the finest precision: the
# tolerance then follows the Keras model's precision.
PRECISIONS: dict[str | None, str] = {
    None: "float64",
    "float16": "float16",
    **dict.fromkeys(EIGHT_BITS, "int8"),
}
# Largest allowed error of an 8-bit file, relative to an output's standard deviation. Files of digit
# and question classifiers with a smaller error lost up to 3 points of accuracy. Files with a larger
# error lost 11 to 26 points.
USEFUL = 0.25
# Error of an 8-bit file above which there is a warning, relative to an output's standard deviation.
# At this limit the squared error is 1% of the output's variance, and the error is 20 dB below the
# output. Classifiers with a smaller error lost at most 1 point of accuracy. In sound, noise of this
# size is audible.
COSTLY = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """The sums of y and y^2 over samples, to compute the variance of an output y.

    All samples have the same shape.

    Attributes:
        output: name of the output.
        samples: number of samples.
        total: sum of y over the samples, an array with the shape of a row.
        squares: sum of y^2 over all elements.
    """

    output: str
    samples: int
    total: Array
    squares: float


def useful_tolerance(spreads: Iterable[Spread]) -> Tolerance:
    """Compute the tolerance of an 8-bit file: a quarter of each output's standard deviation.

    Args:
        spreads: sums for the variance of each output over all samples; several entries for an
            output with rows of different shapes.
    """
    limits = {n: float(np.float32(USEFUL * x)) for n, x in standard_deviations(spreads).items()}
    return Tolerance(0.0, {}, integer_share=1.0 if limits else INTEGER_SHARE, limits=limits)


def standard_deviations(spreads: Iterable[Spread]) -> dict[str, float]:
    """Compute the standard deviation of each output over the samples.

    Args:
        spreads: as for `useful_tolerance`.
    """
    found: dict[str, list[Spread]] = {}
    for spread in spreads:
        found.setdefault(spread.output, []).append(spread)
    return {name: _variation(own) for name, own in found.items()}


def _variation(found: Sequence[Spread]) -> float:
    """Return the root mean square of an output's differences from its mean over the samples."""
    if repeated := [spread for spread in found if spread.samples > 1]:
        squares = sum(
            max(_squares_about_mean(s.squares, s.total, s.samples), 0.0) for s in repeated
        )
        return math.sqrt(squares / sum(s.samples * s.total.size for s in repeated))
    if len(found) == 1:
        return 0.0
    # All samples have different shapes, so an element of the output has no mean over the samples.
    # Use one mean over all values of all samples.
    count = sum(s.total.size for s in found)
    squares = _squares_about_mean(
        sum(s.squares for s in found), np.asarray(sum(s.total.sum() for s in found)), count
    )
    return math.sqrt(max(squares, 0.0) / count)


def _squares_about_mean(squares: float, total: Array, count: int) -> float:
    """Return the sum of squared differences of values from their mean."""
    return squares - float(np.sum(np.square(total))) / count


def spreads(outputs: Mapping[str, Array]) -> tuple[Spread, ...]:
    """Compute the sums of y and y^2 over the samples, for each float output y.

    Args:
        outputs: a model's outputs for some samples, (samples, ...), by name.
    """
    return tuple(
        Spread(name, len(y), to_float64(y).sum(axis=0), float(np.square(to_float64(y)).sum()))
        for name, y in outputs.items()
        if kind_of(y) == "float" and y.size
    )


def add_spreads(found: Iterable[Spread]) -> tuple[Spread, ...]:
    """Add the sums of several batches: one result for each output and each shape of samples.

    Args:
        found: results of `spreads` for several batches.
    """
    added: dict[tuple[str, tuple[int, ...]], Spread] = {}
    for s in found:
        key = s.output, s.total.shape
        if key in added:
            one = added[key]
            samples, squares = one.samples + s.samples, one.squares + s.squares
            s = Spread(s.output, samples, one.total + s.total, squares)
        added[key] = s
    return tuple(added.values())
