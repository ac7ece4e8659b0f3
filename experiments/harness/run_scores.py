"""What a run scored, and how long it took to reach a level."""

import math
from collections.abc import Sequence

from experiments.harness.results_file import Entry
from experiments.harness.study import Measurement, Training

EPOCHS = "epochs"  # the score of how long it took


def score_of(work: Training | Measurement, entry: Entry, name: str) -> float | None:
    """A test score of a run; None where it has none, or never reached the level of `EPOCHS`."""
    if name != EPOCHS:
        return entry["test"].get(name)
    assert isinstance(work, Training)
    assert work.level is not None
    scores = entry["history"][work.monitor]
    rounds = rounds_to(work.level_of(entry["task"]), scores, work.higher)
    return None if rounds is None else rounds * entry["updates"] / entry["epoch"]


def has_learned(work: Training | Measurement, entry: Entry) -> bool:
    """Whether the validation of a run got to what its study takes for learning."""
    return not isinstance(work, Training) or learned(work, entry["history"][work.monitor])


def learned(work: Training, scores: Sequence[float]) -> bool:
    """Whether scores of validations got to what the study takes for learning."""
    return work.learned is None or rounds_to(work.learned, scores, work.higher) is not None


def rounds_to(level: float, scores: Sequence[float], higher: bool) -> float | None:
    """How many rounds a level took: between two validations by a straight line; None, if never.

    >>> rounds_to(0.5, [0.2, 0.4, 0.8], higher=True)
    2.25
    """
    for rounds, score in enumerate(scores, 1):
        if score >= level if higher else score <= level:
            before = scores[rounds - 2] if rounds > 1 else math.nan
            share = (level - before) / (score - before) if math.isfinite(before) else 1.0
            return rounds - 1 + share
    return None
