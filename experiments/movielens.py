"""Click-through rate on MovieLens: the questions of Frappe, asked of ratings: claims 6, 7, 8."""

import pathlib

import numpy as np

from experiments import click_through_rate
from experiments.click_through_rate import AFTER, BEFORE, BOTH, EMBEDDINGS
from experiments.harness import click_data, data, metrics
from experiments.harness.study import Parts, Size, Study, Training, arms

TASK = "MovieLens"
MODELS = (
    "none",
    *(f"{norm}; {EMBEDDINGS}" for norm in ("BN", "LN", "variance only")),
    *(
        f"{norm}; {BOTH}"
        for norm in ("BN", "LN", "LN without affine", "variance only", "centred only")
    ),
    *(f"BN; {place}" for place in (BEFORE, AFTER)),
)
LEARNED, VALIDATED = 0.8, 0.1  # shares of the ratings


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Of every user the first ratings to learn from, later ones to validate, the last to test."""
    fields, labels, times = click_data.movielens(
        data.file("movielens_latest_small", "ml-latest-small.zip", folder)
    )
    return parted(fields, labels, places(fields[:, 0], times), samples)


def parted(
    fields: np.ndarray, labels: np.ndarray, places: np.ndarray, samples: int | None
) -> Parts:
    """Rows in the order of their places in [0, 1), of each part the last samples.

    Values that are not twice in what there is to learn from are unknown.
    """
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], (LEARNED, LEARNED + VALIDATED))
    training, validation, test = (
        rows[-samples:] if samples else rows for rows in np.split(order, ends)
    )
    ids = click_data.numbered(fields, training)
    return {
        "training": (ids[training], labels[training]),
        "validation": (ids[validation], labels[validation]),
        "test": (ids[test], labels[test]),
    }


def places(users: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Where each rating stands among those of its user, by time, in [0, 1)."""
    order = np.lexsort((times, users))
    _, starts, counts = np.unique(users[order], return_index=True, return_counts=True)
    found = np.empty(len(users))
    found[order] = (np.arange(len(users)) - np.repeat(starts, counts)) / np.repeat(counts, counts)
    return found


STUDY = Study(
    name="movielens",
    title="Click-through rate on MovieLens",
    paper="Wang et al. 2020 (arXiv 2006.12753), as above; they have no figure for MovieLens.",
    otherwise="Smaller: the 100,836 ratings of ml-latest-small, of which four and more count as "
    "clicks, for 45 million rows of Criteo. Four fields: user, movie, all its genres, the first "
    "of them; a value that is there once or never is unknown. Of each user the last tenth of the "
    "ratings is tested and the tenth before it validates, so that others' later ratings are "
    "learned. The net is that of Frappe.",
    changed="Rates were 3e-4 to 3e-3 at first. Five seeds left open what eight to fifteen were "
    "to decide: there were twenty. One question was to be decided by twenty-five: there are that "
    "many now. What holds at the worst of the rates was asked at first. That was the smallest in "
    "nearly every run, which tells which net is slow, and not which is unstable: now the largest "
    "is asked about.",
    work=Training(load, click_through_rate.build, "binary_crossentropy", metrics.binary, "auc"),
    arms=arms({TASK: 512}, MODELS),
    questions=click_through_rate.questions(TASK, (BOTH,)),
    full=Size(None, 39_936, 50, patience=3, seeds=25, rates=(1e-3, 3e-3, 1e-2)),
    smoke=Size(512, 512, 1, patience=1, seeds=1, rates=(1e-3,)),
    minutes=0.3,
    scores=click_through_rate.STUDY.scores,
)
