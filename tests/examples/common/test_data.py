"""Data that are not there: one line says how to get them."""

import pathlib

import pytest

from examples.common import data


def test_a_folder_without_the_dataset_says_how_to_prepare_it(tmp_path):
    with pytest.raises(data.DataMissingError, match=r'does not hold mnist; .*load\("mnist"'):
        data.from_tfds("mnist", "test", tmp_path)


def test_a_failed_download_says_what_to_give(monkeypatch):
    def load(*_, download, **__):
        assert download
        raise ConnectionError("no network")

    monkeypatch.setattr(data.tfds, "load", load)
    with pytest.raises(data.DataMissingError, match=r"downloaded \(ConnectionError\); .*--data"):
        data.from_tfds("mnist", "test", None)


@pytest.mark.parametrize("given", [None, "empty"])
def test_missing_files_say_where_to_find_them(given, tmp_path):
    with pytest.raises(data.DataMissingError, match=r"KERAS_NORM_DATA name one, .*wojzaremba"):
        data.folder("ptb", given and tmp_path)


def test_files_stand_in_their_folder(tmp_path):
    (tmp_path / "ptb").mkdir()
    assert data.folder("ptb", tmp_path) == pathlib.Path(tmp_path, "ptb")


def test_an_error_is_one_line():
    with pytest.raises(data.DataMissingError) as caught:
        data.folder("sentence_classification", None)
    assert "\n" not in str(caught.value)
