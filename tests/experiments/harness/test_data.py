"""Missing or damaged data raise an error that says how to get them."""

import csv
import gzip
import pathlib
import zlib

import pytest
import requests

from experiments.harness import data


def failing(error):
    def head(url, timeout):
        raise error

    return head


@pytest.mark.parametrize("given", [None, "empty"])
def test_a_failed_download_says_how_to_prepare_the_data_set(given, tmp_path, monkeypatch):
    def load(*_, download, **where):
        assert download
        assert "data_dir" not in where
        raise RuntimeError("no space")

    monkeypatch.setattr(data.requests, "head", failing(requests.ReadTimeout("slow")))
    monkeypatch.setattr(data.tfds, "load", load)
    expected = r'mnist could not be loaded \(RuntimeError\).*tfds.load\("mnist"'
    with pytest.raises(data.DataMissingError, match=expected):
        data.from_tfds("mnist", "test", given and tmp_path)


def test_without_a_network_the_download_fails_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(data.requests, "head", failing(requests.ConnectionError("no route")))
    monkeypatch.setattr(data.tfds, "load", None)
    with pytest.raises(
        data.DataMissingError, match=r"mnist could not be loaded \(ConnectionError\)"
    ):
        data.from_tfds("mnist", "test", None)


def test_a_prepared_data_set_is_not_downloaded(tmp_path, monkeypatch):
    (tmp_path / "tfds" / "mnist").mkdir(parents=True)

    def load(name, *, split, data_dir, download, **_):
        assert (name, split, data_dir, download) == ("mnist", "test", tmp_path / "tfds", False)
        return {}

    monkeypatch.setattr(data.tfds, "load", load)
    assert data.from_tfds("mnist", "test", tmp_path) == {}


def test_a_damaged_data_set_says_how_to_create_it_again(tmp_path):
    (tmp_path / "tfds" / "mnist").mkdir(parents=True)
    expected = (
        r'mnist is truncated or has another version .*: create it again by tfds.load\("mnist"'
    )
    with pytest.raises(data.DataMissingError, match=expected):
        data.from_tfds("mnist", "test", tmp_path)


@pytest.mark.parametrize("given", [None, "empty"])
def test_a_missing_file_says_where_to_download_it(given, tmp_path):
    expected = r"ptb.train.txt.*KERAS_NORM_DATA to a folder.*wojzaremba"
    with pytest.raises(data.DataMissingError, match=expected):
        data.file("ptb", "ptb.train.txt", given and tmp_path)


def test_a_file_is_found_in_its_folder(tmp_path):
    (tmp_path / "ptb").mkdir()
    (tmp_path / "ptb" / "other.txt").write_text("a\n")
    found = data.file("ptb", "other.txt", tmp_path)
    assert found == pathlib.Path(tmp_path, "ptb", "other.txt")


def test_a_truncated_text_is_refused(tmp_path):
    (tmp_path / "sick").mkdir()
    (tmp_path / "sick" / "SICK_train.txt").write_text("pair_ID\n")
    expected = r"SICK_train.txt is truncated .* \(8 bytes, not 506,243\): download it again"
    with pytest.raises(data.DataMissingError, match=expected):
        data.file("sick", "SICK_train.txt", tmp_path)


def test_the_listed_sizes_equal_the_sizes_of_the_files(request):
    folder = request.getfixturevalue("data")
    there = {name: size for name, size in data.SIZES.items() if (folder / name).exists()}
    assert {name: data.size_of(folder / name) for name in there} == there


@pytest.mark.parametrize("cut", [0, 2, 9])
def test_a_truncated_or_other_compressed_text_is_refused(cut, tmp_path):
    path = tmp_path / "translation_cmn_eng" / "cmn.txt.gz"
    path.parent.mkdir()
    written = gzip.compress(b"Hi.\t\n" * 99)
    path.write_bytes(written[: len(written) - cut])
    expected = r"cmn.txt.gz is truncated .* \(.* bytes, not 4,151,351\): download it again"
    with pytest.raises(data.DataMissingError, match=expected):
        data.file("translation_cmn_eng", "cmn.txt.gz", tmp_path)


@pytest.mark.parametrize("name", ["cmn.txt.gz", "ml-latest-small.zip"])
def test_a_file_that_is_not_an_archive_is_refused(name, tmp_path):
    folder = next(path.partition("/")[0] for path in data.SIZES if path.endswith(name))
    (tmp_path / folder).mkdir()
    (tmp_path / folder / name).write_bytes(b"")
    with pytest.raises(data.DataMissingError, match=rf"{name} is truncated or has another version"):
        data.file(folder, name, tmp_path)


@pytest.mark.parametrize("error", [zlib.error("invalid block"), csv.Error("NUL"), TypeError("?")])
def test_every_error_while_reading_says_where_to_download_the_file(error, tmp_path):
    with (
        pytest.raises(data.DataMissingError, match="download it again"),
        data.reading("ptb", tmp_path),
    ):
        raise error


def test_an_error_takes_one_line():
    with pytest.raises(data.DataMissingError) as caught:
        data.file("sentence_classification", "subj.all", None)
    assert "\n" not in str(caught.value)
