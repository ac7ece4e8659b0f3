"""Tables of results for the terminal."""

from collections.abc import Sequence

import numpy as np
import rich.console
import rich.table
import scipy.stats

Rows = Sequence[Sequence[str]]


def show(title: str, header: Sequence[str], rows: Rows) -> None:
    """Print a table; the first two columns are text, the others figures."""
    table = rich.table.Table(title=title)
    for k, column in enumerate(header):
        table.add_column(column, justify="right" if k > 1 else "left")
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
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values)
    return f"{mean:.{digits}f} ± {half:.{digits}f}"
