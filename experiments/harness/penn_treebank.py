"""The text of the Penn Treebank: one sentence a line, rare words as <unk> and numbers as N."""

import pathlib

from experiments.harness import data

FILES = {"training": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}


def text(part: str, folder: pathlib.Path | None) -> str:
    """Return the text of a part.

    Args:
        part: a key of FILES.
        folder: the data folder; None if there is none.

    Raises:
        DataMissingError: the file is missing, truncated or of another version.
    """
    path = data.file("ptb", FILES[part], folder)
    with data.reading("ptb", path):
        return path.read_text(encoding="utf-8")
