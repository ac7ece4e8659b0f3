"""Cloze questions about plays have a missing name, and names are numbers."""

import numpy as np

from experiments.harness import cloze

PLAY = """
ROMEO:
O, Juliet! Nurse, where is
my lady?

JULIET:
Romeo, Romeo.

First Nurse:
Here, Romeo!
"""


def test_a_question_misses_a_name_of_its_passage():
    """The third speech does not name Juliet, and no passage names the nurse."""
    rng = np.random.default_rng(0)
    found = list(cloze.clozes(cloze.speeches(PLAY, 4), 1, 3, rng))
    assert [q.question.index("@placeholder") for q in found] == [0, 2, 4]
    for q in found:
        assert f"@entity{q.answer}" in q.passage
        assert f"@entity{q.answer}" not in q.question
        names = {t for t in (*q.passage, *q.question) if t[0] == "@"} - {"@placeholder"}
        assert names <= {"@entity0", "@entity1", "@entity2"}
