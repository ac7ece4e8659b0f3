"""Online learning of ratings in order of time, with batch size 1: claim 2."""

import pathlib

import numpy as np

from experiments import click_through_rate, movielens
from experiments.click_through_rate import BOTH
from experiments.harness import data, metrics
from experiments.harness.study import Parts, Question, Size, Study, Training, arms

TASK = "MovieLens, batch 1, one pass"
BN, LN = (f"{norm}; {BOTH}" for norm in ("BN", "LN"))


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load all ratings in order of time: the last tenth tests and the tenth before it validates."""
    path = data.file(movielens.FOLDER, "ml-latest-small.zip", folder)
    fields, labels, times = movielens.read_ratings(path)
    everyone = np.zeros(len(times))
    return movielens.parted(fields, labels, movielens.places(everyone, times), samples)


def _better(statement: str, minus: str) -> Question:
    return Question(
        2, statement, "auc", ((TASK, LN),), ((TASK, minus),), 0.5, scale=100, unit="points of AUC"
    )


STUDY = Study(
    name="online_ratings",
    title="Online learning of ratings",
    question="Does a click-through-rate model with LayerNorm learn from batches of one?",
    paper="Ba et al. 2016, section 3: LayerNorm works in the online regime, with batches of one. "
    "The paper shows no figure.",
    differences="Nothing is smaller, because the papers have no such experiment. The [Frappe "
    "network](click_through_rate.md) learns 40,000 ratings of MovieLens in order of time, each "
    "once, in a batch of its own. A rating of four or more counts as a click. The test has the "
    "last 10,000 ratings; more than nine in ten are by users that the model never met. Seeds "
    "differ in the initial weights, not in the order. BatchNorm of one sample returns beta for "
    "any sample, so the hidden layers cannot learn. Its AUC is equal at every rate.",
    work=Training(
        load,
        click_through_rate.build,
        "binary_crossentropy",
        metrics.binary,
        "auc",
        in_order=True,
    ),
    arms=arms({TASK: 1}, ("none", BN, LN)),
    questions=(
        Question(
            2,
            "LayerNorm learns at batch size 1: its AUC is above chance",
            "auc",
            ((TASK, LN),),
            threshold=50.0,
            scale=100,
            unit="% AUC",
        ),
        _better("LayerNorm ends better than no norm", "none"),
        _better("LayerNorm ends better than BatchNorm", BN),
    ),
    full=Size(40_000, 40_000, 1, patience=1, seeds=5, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores=click_through_rate.STUDY.scores,
)
