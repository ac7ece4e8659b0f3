"""The scores of a finished run, and the number of epochs that it took to reach a level."""

import math
from collections.abc import Sequence

from experiments.harness.results_file import Entry
from experiments.harness.study import Measurement, Training

EPOCHS = "epochs"  # name of the score that counts the epochs to a level


def score_of(work: Training | Measurement, entry: Entry, name: str) -> float | None:
    """Return a test score of a run; None if the run lacks it or never reached the level."""
    if name != EPOCHS:
        return entry["test"].get(name)
    assert isinstance(work, Training)
    assert work.level is not None
    scores = entry["history"][work.monitor]
    rounds = rounds_to(work.level_of(entry["task"]), scores, work.maximize)
    return None if rounds is None else rounds * entry["updates"] / entry["epoch"]


def has_learned(work: Training | Measurement, entry: Entry) -> bool:
    """Whether the validation score of a run reached `Training.learned`."""
    return not isinstance(work, Training) or learned(work, entry["history"][work.monitor])


def learned(work: Training, scores: Sequence[float]) -> bool:
    """Whether one of the validation scores reached `Training.learned`."""
    return work.learned is None or rounds_to(work.learned, scores, work.maximize) is not None


def rounds_to(level: float, scores: Sequence[float], maximize: bool) -> float | None:
    """Return the number of rounds until a score reached a level; None if it never did.

    The number is interpolated linearly between two validations.

    >>> rounds_to(0.5, [0.2, 0.4, 0.8], maximize=True)
    2.25
    """
    for rounds, score in enumerate(scores, 1):
        if score >= level if maximize else score <= level:
            before = scores[rounds - 2] if rounds > 1 else math.nan
            share = (level - before) / (score - before) if math.isfinite(before) else 1.0
            return rounds - 1 + share
    return None
