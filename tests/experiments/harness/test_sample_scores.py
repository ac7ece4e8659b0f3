"""Scores of test samples are kept in few characters, and their mean has an interval."""

import numpy as np
import pytest
import scipy.stats

from experiments.harness import sample_scores

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1001])
def test_what_is_true_or_false_takes_a_bit(count):
    values = RNG.random(count) < 0.3
    text = sample_scores.packed(values)
    np.testing.assert_array_equal(sample_scores.unpacked(text), values)
    assert len(text) <= count / 6 + 20


def test_numbers_are_kept_in_float32():
    values = RNG.normal(size=50)
    np.testing.assert_array_equal(
        sample_scores.unpacked(sample_scores.packed(values)), values.astype("float32")
    )


def test_a_score_of_every_sample_counts_by_its_mean():
    found = sample_scores.means({"right": np.array([True, False]), "loss": 0.5})
    assert found == {"right": 0.5, "loss": 0.5}


def test_the_interval_is_that_of_a_mean():
    values = RNG.normal(3.0, 2.0, 1000)
    mean, half = sample_scores.interval(values, 0.95)
    low, high = scipy.stats.norm.interval(0.95, values.mean(), scipy.stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high), abs=0.01)
    assert sample_scores.interval(values, 0.95) == (mean, half)


def test_equal_values_have_no_interval():
    assert sample_scores.interval(np.ones(20), 0.95) == (1.0, 0.0)
