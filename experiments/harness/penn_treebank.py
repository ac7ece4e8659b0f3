"""The Penn Treebank's text: a sentence a line, rare words as <unk> and numbers as N."""

import pathlib

from experiments.harness import data

FILES = {"training": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}


def text(part: str, folder: pathlib.Path | None) -> str:
    """The text of a part.

    Args:
        part: one of FILES.
        folder: of the data.

    Raises:
        DataMissingError: its file is missing, cut off or of another version.
    """
    path = data.file("ptb", FILES[part], folder)
    with data.whole("ptb", path):
        return path.read_text(encoding="utf-8")
