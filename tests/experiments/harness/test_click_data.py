"""Rows of three formats become ids and labels; what is missing has an id of its own."""

import zipfile

import numpy as np
import pytest

from experiments.harness import click_data

CRITEO = [
    ["0", "", "3", "260", *[""] * 10, "05db9164", *[""] * 25],
    ["1", "1", "-1", "19", *[""] * 10, "68fd1e64", *[""] * 25],
    ["0", "1", "3", "259", *[""] * 10, "05db9164", *[""] * 25],
]
NAMES = ["label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27))]


def write(path, rows, delimiter):
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
    return path


def test_criteo_with_and_without_a_header_and_an_id_is_the_same(tmp_path):
    published = click_data.criteo(write(tmp_path / "train.txt", CRITEO, "\t"))
    sample = click_data.criteo(write(tmp_path / "sample.txt", [NAMES, *CRITEO], ","))
    rows = [["Id", *NAMES], *(["10000000", *row] for row in CRITEO)]
    for found in (sample, click_data.criteo(write(tmp_path / "tiny.csv", rows, ","))):
        for a, b in zip(found, published, strict=True):
            np.testing.assert_array_equal(a, b)
    ids, labels = published
    assert ids.shape == (3, 39)
    np.testing.assert_array_equal(labels, [0, 1, 0])
    np.testing.assert_array_equal(ids // click_data.BUCKETS, np.arange(39)[None].repeat(3, 0))
    missing = np.array([[not cell for cell in row[1:]] for row in CRITEO])
    np.testing.assert_array_equal(ids % click_data.BUCKETS == 0, missing)
    assert ids[0, 1] == ids[2, 1] != ids[1, 1]
    assert ids[0, 2] == ids[2, 2] != ids[1, 2]  # 260 and 259 are of one level
    assert ids[0, 13] == ids[2, 13] != ids[1, 13]


def test_avazu_has_the_hour_and_the_day_of_the_week(tmp_path):
    rows = [["17", "1", "14102123", *"abcdefghijklmnopqrstu"], ["18", "0", "14102223", *"a" * 21]]
    header = ["id", "click", "hour", *(f"C{k}" for k in range(21))]
    ids, labels = click_data.avazu(write(tmp_path / "train.csv", [header, *rows], ","))
    assert ids.shape == (2, 23)
    np.testing.assert_array_equal(labels, [1, 0])
    assert ids[0, 0] == ids[1, 0]
    assert ids[0, 1] != ids[1, 1]
    assert ids[0, 2] == ids[1, 2]
    assert (ids[0, 3:] != ids[1, 3:]).all()


def test_the_samples_are_read_whole(data):
    folder = data / "ctr_samples"
    for read, name, shape, share in (
        (click_data.criteo, "criteo_sample.txt", (200, 39), None),
        (click_data.criteo, "criteo_train.tiny.csv", (1999, 39), 418),
        (click_data.avazu, "avazu_sample.txt", (100, 23), None),
    ):
        ids, labels = read(folder / name)
        assert ids.shape == shape
        assert 0 < labels.sum() == (share or labels.sum())
        assert ids.max() < shape[1] * click_data.BUCKETS


@pytest.mark.parametrize("read", [click_data.criteo, click_data.avazu])
@pytest.mark.parametrize("text", ["", "1,2,3\n4", "a,b\n1,14102100,3\n"])
def test_another_file_is_one_line(read, text, tmp_path):
    (tmp_path / "train.csv").write_text(text)
    with pytest.raises(SystemExit, match=r"train.csv is cut off .* take it anew from github.com"):
        read(tmp_path / "train.csv")


def test_a_label_is_0_or_1():
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        click_data.labels(["0", "2"])


@pytest.fixture
def movies(tmp_path):
    def zipped(ratings):
        with zipfile.ZipFile(tmp_path / "ml.zip", "w") as file:
            file.writestr("ml-latest-small/movies.csv", 'movieId,title,genres\n7,"A, B",Drama|War')
            file.writestr("ml-latest-small/ratings.csv", ratings)
        return tmp_path / "ml.zip"

    return zipped


def test_ratings_from_4_on_are_clicks(movies):
    path = movies("userId,movieId,rating,timestamp\n1,7,4.0,20\n2,7,3.5,10\n")
    fields, labels, times = click_data.movielens(path)
    assert fields.tolist() == [["1", "7", "Drama|War", "Drama"], ["2", "7", "Drama|War", "Drama"]]
    np.testing.assert_array_equal(labels, [1, 0])
    np.testing.assert_array_equal(times, [20, 10])


@pytest.mark.parametrize("ratings", ["", "userId,movieId\n1,7\n", "a,b,c,d\n1,8,4.0,20\n"])
def test_ratings_that_are_not_whole_are_one_line(movies, ratings):
    with pytest.raises(SystemExit, match=r"ml.zip is cut off .* take it anew from"):
        click_data.movielens(movies(ratings))


def test_an_archive_that_is_cut_off_is_one_line(movies):
    path = movies("userId,movieId,rating,timestamp\n1,7,4.0,20\n")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(SystemExit, match=r"ml.zip is cut off .* take it anew from"):
        click_data.movielens(path)


def test_values_that_are_known_twice_have_an_id_and_the_others_of_a_field_share_one():
    fields = np.array([["a", "x"], ["a", "y"], ["b", "x"], ["c", "x"], ["a", "x"]])
    ids = click_data.numbered(fields, np.arange(3))
    np.testing.assert_array_equal(ids[:, 0], [1, 1, 0, 0, 1])
    np.testing.assert_array_equal(ids[:, 1], [3, 2, 3, 3, 3])
    np.testing.assert_array_equal(click_data.numbered(fields, np.arange(1)), [[0, 1]] * 5)
