"""Precision of combined moments; tests/recalibration merges the moments of parts of the data."""

from functools import partial

import numpy as np
from keras import ops

from keras_norm.ops.merge_moments import reduce_moments


def test_a_large_mean_costs_no_digits_of_the_variance():
    """A single set keeps its variance, and two sets keep the digits of their spread."""
    total = partial(ops.sum, axis=0, keepdims=True)
    count, mean, variance = (
        ops.convert_to_tensor(s, "float32") for s in ([[3.0]], [[1e7]], [[2.0]])
    )
    assert float(reduce_moments(count, mean, variance, total)[2][0, 0]) == 2.0
    both = [np.float32(s) for s in ([[3.0], [3.0]], [[1e7], [1e7 + 4]], [[2.0], [2.0]])]
    assert float(reduce_moments(*both, total)[2][0, 0]) == 6.0
