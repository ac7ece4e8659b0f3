"""Linear models find the classes and the ratings in vectors."""

import numpy as np
from sklearn.linear_model import LogisticRegression

from experiments.harness import linear_probes

RNG = np.random.default_rng(0)


def test_the_features_of_a_pair_are_those_of_tai_et_al():
    u, v = np.array([1.0, -2.0]), np.array([3.0, 0.5])
    found = linear_probes.features(np.array([[u, v]]))
    np.testing.assert_array_equal(found, [[2.0, 2.5, 3.0, -1.0]])


def test_a_fractional_rating_is_the_weighted_mean_of_its_neighbors(monkeypatch):
    """3.2 has weight 0.8 at 3 and 0.2 at 4; 5 has weight 1 at 5."""
    given = {}
    fit = LogisticRegression.fit

    def record(self, x, y, sample_weight=None):
        given.update(y=y, weight=sample_weight)
        return fit(self, x, y, sample_weight)

    monkeypatch.setattr(LogisticRegression, "fit", record)
    pairs, ratings = RNG.normal(size=(4, 2, 3)), np.array([3.2, 5.0, 1.0, 2.5])
    linear_probes.relatedness((pairs, ratings), (pairs, ratings))
    np.testing.assert_array_equal(given["y"], [3, 4, 1, 2, 4, 5, 2, 3])
    np.testing.assert_allclose(given["weight"], [0.8, 0, 1, 0.5, 0.2, 1, 0, 0.5], atol=1e-12)
