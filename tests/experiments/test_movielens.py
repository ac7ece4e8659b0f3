"""Ratings of MovieLens are read, split by time and given ids."""

import zipfile

import numpy as np
import pytest

from experiments import movielens


@pytest.fixture
def movies(tmp_path):
    def zipped(ratings):
        with zipfile.ZipFile(tmp_path / "ml.zip", "w") as file:
            file.writestr("ml-latest-small/movies.csv", 'movieId,title,genres\n7,"A, B",Drama|War')
            file.writestr("ml-latest-small/ratings.csv", ratings)
        return tmp_path / "ml.zip"

    return zipped


def test_a_rating_of_four_or_more_is_a_click(movies):
    path = movies("userId,movieId,rating,timestamp\n1,7,4.0,20\n2,7,3.5,10\n")
    fields, labels, times = movielens.read_ratings(path)
    assert fields.tolist() == [["1", "7", "Drama|War", "Drama"], ["2", "7", "Drama|War", "Drama"]]
    np.testing.assert_array_equal(labels, [1, 0])
    np.testing.assert_array_equal(times, [20, 10])


def test_rare_values_of_a_field_share_an_id():
    fields = np.array([["a", "x"], ["a", "y"], ["b", "x"], ["c", "x"], ["a", "x"]])
    ids = movielens.numbered(fields, np.arange(3))
    np.testing.assert_array_equal(ids[:, 0], [1, 1, 0, 0, 1])
    np.testing.assert_array_equal(ids[:, 1], [3, 2, 3, 3, 3])
    np.testing.assert_array_equal(movielens.numbered(fields, np.arange(1)), [[0, 1]] * 5)


def test_the_position_of_a_rating_is_its_rank_by_time():
    users, times = np.array(["b", "a", "b", "b", "a"]), np.array([30, 5, 10, 20, 4])
    np.testing.assert_allclose(movielens.places(users, times), [2 / 3, 1 / 2, 0, 1 / 3, 0])


def test_training_ratings_are_earlier_than_test_ratings(data):
    path = data / "movielens_latest_small" / "ml-latest-small.zip"
    fields, labels, times = movielens.read_ratings(path)
    places = movielens.places(fields[:, 0], times)
    for user in np.unique(fields[:, 0])[:20]:
        its = fields[:, 0] == user
        learned, tested = (times[its & part] for part in (places < 0.8, places >= 0.9))
        assert learned.max() <= tested.min()
    parts = movielens.parted(fields, labels, places, None)
    assert [len(labels) for _, labels in parts.values()] == [
        np.sum(places < 0.8),
        np.sum((places >= 0.8) & (places < 0.9)),
        np.sum(places >= 0.9),
    ]
    few = movielens.parted(fields, labels, places, 50)
    np.testing.assert_array_equal(few["test"][1], parts["test"][1][-50:])
