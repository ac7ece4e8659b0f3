"""Rows of Criteo's, Avazu's and MovieLens' files: ids of their fields, and clicks as labels."""

import csv
import datetime
import io
import math
import pathlib
import zipfile
from collections.abc import Iterable, Sequence

import keras
import numpy as np

from experiments.harness import data

SAMPLES, MOVIES = "ctr_samples", "movielens_latest_small"
BUCKETS = 1000  # ids of a hashed field
INTEGERS, CATEGORIES = 13, 26  # Criteo's columns after the label
AVAZU = 24  # columns, of which the first three are id, click and hour
CLICK = 4.0  # from this rating on

# Ids (rows, fields), and labels 0 or 1.
Rows = tuple[np.ndarray, np.ndarray]


def criteo(path: pathlib.Path) -> Rows:
    """Rows of Criteo's format: tabs and no header as it was published, or commas and a header.

    Integers are levels, floor(log(x)^2) above 2, which are hashed as the categories are.
    """
    with data.whole(SAMPLES, path), path.open(newline="", encoding="utf-8") as lines:
        # An id before the label does not count.
        rows = [row[-1 - INTEGERS - CATEGORIES :] for row in table(lines)]
        clicks = labels(row[0] for row in rows)
        fields = [[*map(level, row[1 : 1 + INTEGERS]), *row[1 + INTEGERS :]] for row in rows]
        return hashed(fields, INTEGERS + CATEGORIES), clicks


def avazu(path: pathlib.Path) -> Rows:
    """Rows of Avazu's format; of the time they have the hour and the day of the week."""
    with data.whole(SAMPLES, path), path.open(newline="", encoding="utf-8") as lines:
        rows = table(lines)
        times = [datetime.datetime.strptime(row[2], "%y%m%d%H") for row in rows]
        fields = [
            [str(time.hour), str(time.weekday()), *row[3:]]
            for time, row in zip(times, rows, strict=True)
        ]
        return hashed(fields, AVAZU - 1), labels(row[1] for row in rows)


def movielens(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User, movie, all its genres and the first of them, as text; clicks; times in seconds."""
    with data.whole(MOVIES, path), zipfile.ZipFile(path) as files:

        def rows(name: str) -> list[list[str]]:
            with files.open(f"ml-latest-small/{name}.csv") as file:
                return table(io.TextIOWrapper(file, "utf-8", newline=""))

        genres = {movie: kinds for movie, _, kinds in rows("movies")}
        ratings = rows("ratings")
        fields = [
            [user, movie, genres[movie], genres[movie].partition("|")[0]]
            for user, movie, *_ in ratings
        ]
        clicks = np.array([float(row[2]) >= CLICK for row in ratings], "int32")
        return np.array(fields), clicks, np.array([int(row[3]) for row in ratings])


def table(lines: Iterable[str]) -> list[list[str]]:
    """The rows of a file of tabs or commas, without its header if it has one."""
    first, *rest = lines
    rows = list(csv.reader([first, *rest], delimiter="\t" if "\t" in first else ","))
    header = not any(cell.isdigit() for cell in rows[0])
    return rows[header:]


def labels(cells: Iterable[str]) -> np.ndarray:
    """0 or 1 each.

    Raises:
        ValueError: one is neither.
    """
    found = np.array([int(cell) for cell in cells], "int32")
    if not np.isin(found, (0, 1)).all():
        raise ValueError("a label is neither 0 nor 1")
    return found


def level(cell: str) -> str:
    """An integer, roughly.

    >>> level("17668.0"), level("3"), level("1"), level("-1.0"), level("")
    ('95', '1', '1.0', '-1.0', '')
    """
    if not cell:
        return cell
    value = float(cell)
    return str(math.floor(math.log(value) ** 2)) if value > 2 else str(value)


def hashed(rows: Sequence[Sequence[str]], fields: int) -> np.ndarray:
    """BUCKETS ids for each field, of which the first is that of a missing value.

    Raises:
        ValueError: a row has another number of fields.
    """
    if {len(row) for row in rows} != {fields}:
        raise ValueError(f"a row has not {fields} fields")
    buckets = keras.layers.Hashing(BUCKETS, mask_value="")(np.array(rows))
    return np.array(buckets, "int32") + BUCKETS * np.arange(fields, dtype="int32")


def numbered(fields: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Ids for the values of each field that are twice or more in the rows that are known.

    All others of a field share one id, which so is learned.

    Args:
        fields: (rows, fields), as text.
        known: the rows to learn from.
    """
    columns, start = [], 0
    for column in fields.T:
        values, counts = np.unique(column[known], return_counts=True)
        values = values[counts > 1]
        places = np.searchsorted(values, column)
        columns.append(start + np.where(np.isin(column, values), places + 1, 0))
        start += len(values) + 1
    return np.stack(columns, axis=1).astype("int32")
