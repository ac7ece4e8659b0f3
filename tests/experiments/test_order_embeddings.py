"""The loss and the ranks of order embeddings agree with the paper and SciPy."""

import numpy as np
import pytest
import scipy.stats

from experiments import order_embeddings
from experiments.order_embeddings import MARGIN

RNG = np.random.default_rng(0)


def test_the_loss_is_the_sum_of_hinges_in_the_paper():
    """Two of the three captions belong to one picture and are not negative examples."""
    embeddings, pictures = np.abs(RNG.normal(size=(3, 8))), [4, 7, 4]
    p, c = embeddings[:, :4], embeddings[:, 4:]

    def against(i, j):
        return np.sum(np.maximum(0, c[i] - p[j]) ** 2)

    expected = [
        sum(
            max(0, MARGIN + against(i, i) - against(i, j))
            + max(0, MARGIN + against(i, i) - against(j, i))
            for j in range(3)
            if pictures[i] != pictures[j]
        )
        for i in range(3)
    ]
    found = order_embeddings.ranking_loss(np.array(pictures, "float64"), embeddings)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_ranks_agree_with_scipy():
    against = RNG.normal(size=(20, 20))
    pictures, captions = order_embeddings.ranks(against, np.arange(20))
    np.testing.assert_array_equal(pictures, np.diag(scipy.stats.rankdata(against, axis=1)))
    np.testing.assert_array_equal(captions, np.diag(scipy.stats.rankdata(against, axis=0)))


def test_the_best_of_several_captions_counts():
    against = np.array([[3.0, 1.0], [0.5, 2.0], [2.0, 1.5], [4.0, 0.2]])
    pictures, captions = order_embeddings.ranks(against, np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(pictures, [2, 1, 1, 1])
    np.testing.assert_array_equal(captions, [1, 1])


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_ties_and_nan_rank_last(value):
    against = np.full((6, 3), value)
    pictures, captions = order_embeddings.ranks(against, np.repeat(np.arange(3), 2))
    assert set(pictures) == {3}
    assert set(captions) == {5}


def test_recall_and_rank_are_means_over_folds(monkeypatch):
    """The first fold is perfect, and the second fold has only ties."""
    monkeypatch.setattr(order_embeddings, "FOUND_AMONG", 20)
    embeddings = np.ones((40, 40))
    embeddings[:20] = np.concatenate([np.eye(20), np.eye(20)], axis=1)
    found = order_embeddings.score(embeddings, np.arange(40))
    assert found["r1"] == found["picture_r10"] == found["caption_r1"] == 0.5
    assert found["picture_rank"] == found["caption_rank"] == (1 + 20) / 2
