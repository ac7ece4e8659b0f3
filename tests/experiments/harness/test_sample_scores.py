"""Scores of test samples are encoded as text, and their mean has a bootstrap interval."""

import numpy as np
import pytest
import scipy.stats

from experiments.harness import sample_scores

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1001])
def test_booleans_take_one_bit_each(count):
    values = RNG.random(count) < 0.3
    text = sample_scores.pack(values)
    np.testing.assert_array_equal(sample_scores.unpack(text), values)
    assert len(text) <= count / 6 + 20


def test_numbers_keep_the_precision_of_float32():
    values = RNG.normal(size=9).astype("float32")
    np.testing.assert_array_equal(sample_scores.unpack(sample_scores.pack(values)), values)


def test_the_mean_of_sample_scores_is_the_score():
    found = sample_scores.means({"right": np.array([True, False]), "loss": 0.5})
    assert found == {"right": 0.5, "loss": 0.5}


def test_the_interval_agrees_with_the_normal_approximation():
    values = RNG.normal(3.0, 2.0, 1000)
    mean, half = sample_scores.interval(values, 0.95)
    low, high = scipy.stats.norm.interval(0.95, values.mean(), scipy.stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high), abs=0.01)
    assert sample_scores.interval(values, 0.95) == (mean, half)
