"""Tables of results: a row for every task and model, the spread over seeds in it."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import rich.console
import rich.markup
import rich.table
import scipy.stats

from experiments.harness.results import Entry, grouped

Rows = list[list[str]]


@dataclasses.dataclass(frozen=True)
class Column:
    """How a measurement of every run is shown.

    Attributes:
        heading: of the column, with the unit.
        scale: factor from what was measured to that unit.
        digits: after the point.
        interval: whether the spread over seeds is shown too.
    """

    heading: str
    scale: float = 1.0
    digits: int = 0
    interval: bool = True


def header(columns: Mapping[str, Column]) -> list[str]:
    """The headings of a table of runs."""
    return ["task", "model", *(column.heading for column in columns.values())]


def rows(runs: Iterable[Entry], columns: Mapping[str, Column]) -> Rows:
    """The rows of a table of runs.

    Args:
        runs: entries of a result file.
        columns: by name of the measurement; one that is None leaves its cell empty.
    """

    def cell(seeds: Sequence[Entry], name: str) -> str:
        if seeds[0][name] is None:
            return ""
        column = columns[name]
        values = [column.scale * run[name] for run in seeds]
        return spread(values if column.interval else [np.mean(values)], column.digits)

    return [
        [task, model, *(cell(seeds, name) for name in columns)]
        for task, models in grouped(runs).items()
        for model, seeds in models.items()
    ]


def show(title: str, header: Sequence[str], rows: Rows) -> None:
    """Print a table; figures stand to the right."""
    table = rich.table.Table(title=title)
    for column, *cells in zip(header, *rows, strict=True):
        figures = any(cell[:1].isdigit() for cell in cells)
        table.add_column(rich.markup.escape(column), justify="right" if figures else "left")
    for row in rows:
        table.add_row(*row)
    rich.console.Console().print(table)


def spread(values: Sequence[float], digits: int) -> str:
    """The mean over seeds, and the half width of its 95 % interval by Student's t.

    >>> spread([97.0, 98.0, 99.0], 1)
    '98.0 ± 2.5'
    >>> spread([97.0], 1)
    '97.0'
    """
    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {half_width(values):.{digits}f}"


def half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean by Student's t, of two values or more."""
    return float(scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values))
