"""Online learning of ratings as they came, with batches of one: claim 2's other half."""

import pathlib

import numpy as np

from experiments import click_through_rate, movielens
from experiments.click_through_rate import BOTH
from experiments.harness import data, metrics
from experiments.harness.study import Parts, Question, Size, Study, Training, arms

TASK = "MovieLens, batch 1, one pass"
BN, LN = (f"{norm}; {BOTH}" for norm in ("BN", "LN"))


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """The ratings of all users as they came: the last tenth to test, one before to validate."""
    path = data.file(movielens.FOLDER, "ml-latest-small.zip", folder)
    fields, labels, times = movielens.read_ratings(path)
    everyone = np.zeros(len(times))
    return movielens.parted(fields, labels, movielens.places(everyone, times), samples)


def _better(part: str, minus: str) -> Question:
    return Question(
        2, part, "auc", ((TASK, LN),), ((TASK, minus),), 0.5, scale=100, unit="points of AUC"
    )


STUDY = Study(
    name="online_ratings",
    title="Online learning of ratings",
    paper="Ba et al. 2016, section 3: LayerNorm can be used in the online regime, with batches of "
    "one; without a figure.",
    otherwise="Smaller: nothing; the papers have no such experiment. 40,000 ratings of MovieLens "
    "in the order of time, each learned once, in a batch of its own, by the net of Frappe (a "
    "click is a rating of four or more); tested on the last 10,000. More than nine of ten of "
    "those are by users whom it never met. Seeds differ in the weights that they start from, not "
    "in the order. A BatchNorm of one sample gives its beta, whatever the sample, so that the "
    "hidden layers cannot learn: at every rate it has the same AUC.",
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
            "LayerNorm works at 1: it tells more than chance (MovieLens)",
            "auc",
            ((TASK, LN),),
            above=50.0,
            scale=100,
            unit="% AUC",
        ),
        _better("it learns better than no norm (MovieLens)", "none"),
        _better("BatchNorm does not: LayerNorm learns better than it (MovieLens)", BN),
    ),
    full=Size(40_000, 40_000, 1, patience=1, seeds=5, rates=(3e-4, 1e-3, 3e-3)),
    smoke=Size(16, 16, 1, patience=1, seeds=1, rates=(1e-3,)),
    minutes=1.3,
    scores=click_through_rate.STUDY.scores,
)
