"""What a run scored, and how long it took to a level."""

import dataclasses

import numpy as np
import pytest

from experiments.harness.run_scores import EPOCHS, has_learned, rounds_to, score_of
from tests.experiments import toy_study

ENTRY = {
    "task": "line",
    "updates": 2,
    "epoch": 4.0,
    "test": {"error": 1.0},
    "history": {"error": [4.0, 3.0, 3.1]},
}


def work(**options):
    return dataclasses.replace(toy_study.STUDY.work, **options)


@pytest.mark.parametrize(
    ("level", "scores", "rounds"),
    [
        (3.5, [4.0, 3.0, 3.8], 1.5),  # between two rounds by a straight line
        (3.5, [3.0, 2.0], 1.0),  # what was before the first is not known
        (3.5, [np.nan, 3.0], 2.0),
        (3.5, [np.inf, 3.0], 2.0),
        (0.1, [4.0, np.nan, 3.0], None),  # never
    ],
)
def test_rounds_to_a_level(level, scores, rounds):
    assert rounds_to(level, scores, higher=False) == rounds
    assert rounds_to(-level, [-score for score in scores], higher=True) == rounds


@pytest.mark.parametrize("level", [3.5, {"line": 3.5, "another task": 1.0}])
def test_epochs_to_a_level_are_those_of_the_rounds(level):
    """Two rounds are an epoch."""
    assert score_of(work(level=level), ENTRY, EPOCHS) == 0.75


def test_a_level_that_was_never_reached_has_no_epochs():
    assert score_of(work(level=2.9), ENTRY, EPOCHS) is None


def test_other_scores_are_those_of_the_test():
    assert score_of(work(), ENTRY, "error") == 1.0
    assert score_of(work(), ENTRY, "another") is None


@pytest.mark.parametrize(("learned", "has"), [(None, True), (3.2, True), (2.9, False)])
def test_a_run_has_learned_that_ever_got_there(learned, has):
    assert has_learned(work(learned=learned), ENTRY) is has
