"""Outputs against others, by a tolerance."""

from collections.abc import Mapping

import numpy as np

from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.output_comparison import OutputComparison


def compare(
    expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray], rtol: float, atol: float
) -> tuple[OutputComparison, ...]:
    """What is said of each output: |actual - expected| <= atol + rtol |expected|, or not."""
    tolerance = Tolerance(rtol, dict.fromkeys(expected, atol))
    return tuple(map(tolerance.judge, measure(expected, actual, tolerance.rtol)))
