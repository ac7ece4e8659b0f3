"""Click-through rate on MovieLens: the questions of Frappe for ratings. Claims 6, 7 and 8."""

import csv
import io
import pathlib
import zipfile

import numpy as np

from experiments import click_through_rate
from experiments.click_through_rate import AFTER, BEFORE, BOTH, EMBEDDINGS
from experiments.harness import data, metrics
from experiments.harness.study import Parts, Size, Study, Training, arms

TASK = "MovieLens"
MODELS = (
    "none",
    *(f"{norm}; {EMBEDDINGS}" for norm in ("BN", "LN", "variance only")),
    *(
        f"{norm}; {BOTH}"
        for norm in ("BN", "LN", "LN without affine", "variance only", "centered only")
    ),
    *(f"BN; {place}" for place in (BEFORE, AFTER)),
)
LEARNED, VALIDATED = 0.8, 0.1  # shares of the ratings
CLICK = 4.0  # the lowest rating that counts as a click
FOLDER = "movielens_latest_small"


def load(task: str, samples: int | None, folder: pathlib.Path | None) -> Parts:
    """Load the ratings. Each user's last ratings test, the ratings before them validate."""
    fields, labels, times = read_ratings(data.file(FOLDER, "ml-latest-small.zip", folder))
    return parted(fields, labels, places(fields[:, 0], times), samples)


def read_ratings(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the ratings of MovieLens.

    Returns:
        The fields of each rating as text: user, movie, all genres, first genre. The labels, 1 for a
        click. The times in seconds.
    """
    with data.reading(FOLDER, path), zipfile.ZipFile(path) as files:

        def rows(name: str) -> list[list[str]]:
            with files.open(f"ml-latest-small/{name}.csv") as file:
                _, *found = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""))
            return found

        genres = {movie: kinds for movie, _, kinds in rows("movies")}
        ratings = rows("ratings")
        fields = [
            [user, movie, genres[movie], genres[movie].partition("|")[0]]
            for user, movie, *_ in ratings
        ]
        labels = np.array([float(row[2]) >= CLICK for row in ratings], "int32")
        return np.array(fields), labels, np.array([int(row[3]) for row in ratings])


def numbered(fields: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Give an id to each field value that occurs at least twice in the training rows.

    All other values of a field share one id, so that this id is trained too.

    Args:
        fields: (rows, fields), as text.
        known: indices of the training rows.
    """
    columns, start = [], 0
    for column in fields.T:
        values, counts = np.unique(column[known], return_counts=True)
        values = values[counts > 1]
        places = np.searchsorted(values, column)
        columns.append(start + np.where(np.isin(column, values), places + 1, 0))
        start += len(values) + 1
    return np.stack(columns, axis=1).astype("int32")


def parted(
    fields: np.ndarray, labels: np.ndarray, places: np.ndarray, samples: int | None
) -> Parts:
    """Split rows by their places in [0, 1) into training, validation and test.

    Args:
        fields: (rows, fields), as text.
        labels: labels 0 or 1.
        places: place of each row.
        samples: number of rows of each part, counted from its end; None for all.
    """
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], (LEARNED, LEARNED + VALIDATED))
    training, validation, test = (
        rows[-samples:] if samples else rows for rows in np.split(order, ends)
    )
    ids = numbered(fields, training)
    return {
        "training": (ids[training], labels[training]),
        "validation": (ids[validation], labels[validation]),
        "test": (ids[test], labels[test]),
    }


def places(users: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the rank by time of each rating among its user's ratings, scaled to [0, 1)."""
    order = np.lexsort((times, users))
    _, starts, counts = np.unique(users[order], return_index=True, return_counts=True)
    found = np.empty(len(users))
    found[order] = (np.arange(len(users)) - np.repeat(starts, counts)) / np.repeat(counts, counts)
    return found


STUDY = Study(
    name="movielens",
    title="Click-through rate on MovieLens",
    question="Do the answers on Frappe hold for ratings of movies?",
    paper="Wang et al. 2020 (arXiv 2006.12753), as for [Frappe](click_through_rate.md). The "
    "paper has no result for MovieLens.",
    differences="Smaller: the 100,836 ratings of ml-latest-small, instead of 45 million rows of "
    "Criteo. A rating of four or more counts as a click. There are four fields: user, movie, all "
    "genres, first genre. A value that occurs at most once in training is unknown. Each user's "
    "last tenth of the ratings tests, and the tenth before it validates. So the model learns "
    "later ratings of other users. The network is that of Frappe.",
    revisions="The rates were 3e-4 to 3e-3 at first. Five seeds left questions open that eight "
    "to fifteen were expected to decide, so there were twenty. One question then needed an "
    "estimated twenty-five, so there are twenty-five. The question about the largest rate first "
    "asked about the worst rate. That was the smallest rate in nearly every run, which shows "
    "slowness and not instability.",
    work=Training(load, click_through_rate.build, "binary_crossentropy", metrics.binary, "auc"),
    arms=arms({TASK: 512}, MODELS),
    questions=click_through_rate.questions(TASK, (BOTH,)),
    full=Size(None, 39_936, 50, patience=3, seeds=25, rates=(1e-3, 3e-3, 1e-2)),
    smoke=Size(512, 512, 1, patience=1, seeds=1, rates=(1e-3,)),
    scores=click_through_rate.STUDY.scores,
)
