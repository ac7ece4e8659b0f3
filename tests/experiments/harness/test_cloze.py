"""Questions have a name missing, and names are numbers."""

import numpy as np
import pytest

from experiments.harness import cloze
from experiments.harness.cloze import Cloze

FILE = """http://cnn.com/1

@entity3 met @entity12 in @entity1 . it rained . @entity12 smiled . nobody else came

@placeholder met a man and smiled

@entity12

@entity1:Paris
@entity3:Bob
@entity12:Ann
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cnn" / "questions" / "training" / "1.question"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    return path


def test_a_file_of_the_cnn_corpus_is_a_question(file, tmp_path):
    (found,) = cloze.cnn("training", tmp_path, 4)
    assert found == cloze.read(file, 4)
    assert " ".join(found.passage) == FILE.split("\n")[2]
    assert " ".join(found.question) == FILE.split("\n")[4]
    assert found.answer == 12


def test_of_a_long_passage_the_sentences_nearest_to_the_question_stay(file):
    passage = " ".join(cloze.read(file, 2).passage)
    assert passage == "@entity3 met @entity12 in @entity1 . @entity12 smiled ."


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("\n\n@entity12\n\n", "\n\n", "not enough values"),
        ("@placeholder", "somebody", "no @placeholder"),
        ("\n\n@entity12\n\n", "\n\nAnn\n\n", "'Ann' is no @entityN"),
    ],
)
def test_a_file_that_is_not_whole_is_one_line(file, right, wrong, message):
    file.write_text(FILE.replace(right, wrong))
    with pytest.raises(SystemExit, match=rf"1.question is cut off .*{message}.*cnn.tgz"):
        cloze.read(file, 4)


def test_a_part_without_questions_says_where_they_are_to_be_had(tmp_path):
    with pytest.raises(SystemExit, match=r"no cnn/questions/test/\*.question.*kcho"):
        cloze.cnn("test", tmp_path, 4)


PLAY = """
ROMEO:
O, Juliet! Nurse, where is
my lady?

JULIET:
Romeo, Romeo.

First Nurse:
Here, Romeo!
"""


def test_names_are_those_of_speakers_in_capitals():
    assert cloze.speeches(PLAY, 4) == [
        ("@ROMEO", ":", "o", ",", "@JULIET", "!"),
        ("@JULIET", ":", "@ROMEO", ",", "@ROMEO", "."),
        ("@First_Nurse", ":", "here", ",", "@ROMEO", "!"),
    ]


def test_a_name_of_the_passage_is_missing_in_the_speech_after_it():
    """In the third speech Juliet is not; the nurse was in no passage."""
    rng = np.random.default_rng(0)
    found = list(cloze.clozes(cloze.speeches(PLAY, 4), 1, 3, rng))
    assert [q.question.index("@placeholder") for q in found] == [0, 2, 4]
    for q in found:
        assert f"@entity{q.answer}" in q.passage
        assert f"@entity{q.answer}" not in q.question
        names = {t for t in (*q.passage, *q.question) if t[0] == "@"} - {"@placeholder"}
        assert names <= {"@entity0", "@entity1", "@entity2"}


def test_numbers_are_drawn_anew_for_every_question():
    spoken = [("@A", ":", "no"), ("@B", ":", "yes")] * 20
    found = list(cloze.clozes(spoken, 2, 5, np.random.default_rng(0)))
    assert len(found) == 38
    assert {q.answer for q in found} == set(range(5))


def test_a_question_with_more_names_than_numbers_is_left_out():
    spoken = [("@A", ":", "no"), ("@B", ":", "yes"), ("@A", ":", "@B", "!")]
    rng = np.random.default_rng(0)
    assert not list(cloze.clozes(spoken, 2, 1, rng))
    assert isinstance(next(cloze.clozes(spoken, 2, 2, rng)), Cloze)
