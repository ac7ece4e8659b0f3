"""The Penn Treebank is whole, or one line says that it is not."""

import pytest

from experiments.harness import penn


def test_the_parts_are_those_that_are_published(data):
    for part, (_, count) in penn.FILES.items():
        assert len(penn.text(part, data)) == count


def test_a_text_that_is_cut_off_is_one_line(tmp_path):
    (tmp_path / "ptb").mkdir()
    (tmp_path / "ptb" / "ptb.test.txt").write_text(" no it was n't \n")
    expected = r"ptb.test.txt is cut off .*16 characters, not .*: take it anew from github.com"
    with pytest.raises(SystemExit, match=expected):
        penn.text("test", tmp_path)
