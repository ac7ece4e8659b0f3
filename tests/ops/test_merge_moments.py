"""Combined moments of sets of values, against the moments of all values in float64."""

from functools import partial

import numpy as np
import pytest
from keras import ops

from keras_norm.ops.merge_moments import merge_moments, reduce_moments

RNG = np.random.default_rng(0)
# Sets of different sizes, one of them empty, and the moments of each set.
SETS = [RNG.normal(n, 1.0 + n, (n, 3)) for n in (4, 0, 1, 7)]


def moments_of(values):
    if not len(values):
        return np.zeros((1,)), np.zeros(3), np.zeros(3)
    return np.array([float(len(values))]), values.mean(axis=0), values.var(axis=0)


def merged_in_turn(sets):
    total = moments_of(SETS[1])
    for values in sets:
        total = merge_moments(total, moments_of(values))
    return total


def merged_at_once(sets):
    stacked = map(np.stack, zip(*map(moments_of, sets), strict=True))
    total = partial(ops.sum, axis=0, keepdims=True)
    return [s[0] for s in reduce_moments(*map(ops.convert_to_tensor, stacked), total)]


@pytest.mark.parametrize("merge", [merged_in_turn, merged_at_once])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 2)], ids=str)
def test_merged_moments_are_those_of_all_values(merge, order):
    sets = [SETS[i] for i in order]
    for found, expected in zip(merge(sets), moments_of(np.concatenate(sets)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_sets_without_values_have_moments_of_zero():
    empty = [SETS[1]] * 2
    for merge in (merged_in_turn, merged_at_once):
        np.testing.assert_array_equal(np.concatenate(merge(empty)), 0.0)


def test_a_large_mean_costs_no_digits_of_the_variance():
    """A single set keeps its variance, and two sets keep the digits of their spread."""
    total = partial(ops.sum, axis=0, keepdims=True)
    count, mean, variance = (
        ops.convert_to_tensor(s, "float32") for s in ([[3.0]], [[1e7]], [[2.0]])
    )
    assert float(reduce_moments(count, mean, variance, total)[2][0, 0]) == 2.0
    both = [np.float32(s) for s in ([[3.0], [3.0]], [[1e7], [1e7 + 4]], [[2.0], [2.0]])]
    assert float(reduce_moments(*both, total)[2][0, 0]) == 6.0
