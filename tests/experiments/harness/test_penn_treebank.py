"""The files are the published Penn Treebank."""

from experiments.harness import penn_treebank


def test_the_parts_are_the_published_parts(data):
    counts = {part: len(penn_treebank.text(part, data)) for part in penn_treebank.FILES}
    assert counts == {"training": 5_101_618, "validation": 399_782, "test": 449_945}
