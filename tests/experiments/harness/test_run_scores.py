"""Scores of a run, and epochs until it reached a level."""

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
        (3.5, [4.0, 3.0, 3.8], 1.5),  # linear interpolation between two rounds
        (3.5, [3.0, 2.0], 1.0),  # the score before the first round is unknown
        (3.5, [np.nan, 3.0], 2.0),
        (3.5, [np.inf, 3.0], 2.0),
        (0.1, [4.0, np.nan, 3.0], None),  # the level is never reached
    ],
)
def test_the_rounds_to_a_level_are_interpolated(level, scores, rounds):
    assert rounds_to(level, scores, maximize=False) == rounds
    assert rounds_to(-level, [-score for score in scores], maximize=True) == rounds


@pytest.mark.parametrize("level", [3.5, {"line": 3.5, "another task": 1.0}])
def test_the_epochs_to_a_level_follow_from_the_rounds(level):
    """An epoch has two rounds."""
    assert score_of(work(level=level), ENTRY, EPOCHS) == 0.75


@pytest.mark.parametrize(("learned", "has"), [(None, True), (3.2, True), (2.9, False)])
def test_a_run_has_learned_if_one_validation_reached_the_value(learned, has):
    assert has_learned(work(learned=learned), ENTRY) is has
