"""Counts from the start of each sequence of a row, and the resets of reversed rows."""

import numpy as np
import pytest

from keras_norm.ops.resets import count_timesteps, count_unmasked, reverse_resets


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.random((20, 9)) < 0.6, rng.random((20, 9)) < 0.3


def count(mask, resets, counts_leading_padding):
    """Count unmasked timesteps and timesteps in a Python loop."""
    unmasked, steps = np.zeros(mask.shape, int), np.zeros(mask.shape, int)
    for row in range(len(mask)):
        seen = step = 0
        for t, (now, reset) in enumerate(zip(mask[row], resets[row], strict=True)):
            seen, step = (0, 0) if reset else (seen, step)
            seen += now
            unmasked[row, t], steps[row, t] = seen, step
            step += counts_leading_padding or seen > 0
    return unmasked, steps


def test_unmasked_timesteps_are_counted_from_the_start_of_each_sequence(rows):
    np.testing.assert_array_equal(count_unmasked(*rows), count(*rows, False)[0])


def test_timesteps_are_counted_from_the_first_unmasked_timestep_or_from_the_first(rows):
    mask, resets = rows
    unmasked, steps = count(mask, resets, False)
    counted = np.asarray(count_timesteps(mask, resets))
    np.testing.assert_array_equal(counted[unmasked > 0], steps[unmasked > 0])
    assert (counted >= 0).all()
    np.testing.assert_array_equal(count_timesteps(None, resets), count(mask, resets, True)[1])


def test_sequences_of_reversed_rows_start_at_their_last_timesteps():
    resets = np.array([[True, False, True, True], [False, True, False, False]])
    expected = [[False, True, True, False], [False, False, False, True]]
    np.testing.assert_array_equal(reverse_resets(resets), expected)
