"""The errors of the statistics of samples, against the formula."""

import numpy as np

from benchmarks import sample_size


def test_the_formula_predicts_the_errors_of_samples():
    x = sample_size.draw_sequences(4000)
    for errors in sample_size.measure(x, [200], repeats=8):
        np.testing.assert_allclose(errors.mean, errors.expected_mean, rtol=0.35)
        np.testing.assert_allclose(errors.variance, errors.expected_variance, rtol=0.35)
