"""Scores agree with their definitions."""

import numpy as np

from experiments.harness import metrics

RNG = np.random.default_rng(0)


def test_accuracy_and_nll_agree_with_their_definitions():
    probabilities = np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    found = metrics.classes(probabilities, np.array([0, 1, 1]))
    assert found["accuracy"] == 2 / 3
    np.testing.assert_allclose(found["nll"], -np.log([0.7, 0.6, 0.1]).mean())


def test_the_auc_is_the_share_of_correctly_ordered_pairs():
    found, targets = RNG.random((50, 1)), RNG.integers(0, 2, 50)
    ones, zeros = found[targets == 1], found[targets == 0]
    area = metrics.binary(found, targets)["auc"]
    np.testing.assert_allclose(area, (ones > zeros.T).mean())


def test_scores_of_a_diverged_model_are_nan():
    found = metrics.binary(np.full((4, 1), np.nan), np.array([0, 1, 0, 1]))
    assert np.isnan(list(found.values())).all()
