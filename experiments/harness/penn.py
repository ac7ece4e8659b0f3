"""The Penn Treebank's text: a sentence a line, rare words as <unk> and numbers as N."""

import pathlib

from experiments.harness import data

# The name of each part's file, and how many characters it has where it is whole.
FILES = {
    "training": ("ptb.train.txt", 5_101_618),
    "validation": ("ptb.valid.txt", 399_782),
    "test": ("ptb.test.txt", 449_945),
}


def text(part: str, folder: pathlib.Path | None) -> str:
    """The text of a part.

    Args:
        part: one of FILES.
        folder: of the data.

    Raises:
        DataMissingError: its file is missing, cut off or of another version.
    """
    name, count = FILES[part]
    path = data.file("ptb", name, folder)
    with data.whole("ptb", path):
        found = path.read_text(encoding="utf-8")
        if len(found) != count:
            raise ValueError(f"{len(found):,} characters, not {count:,}")
        return found
