"""Format numbers and text, and make tables, for all reports."""

import dataclasses
import math
import re
from collections.abc import Hashable, Iterable
from typing import TypeVar

from rich import box
from rich.table import Column, Table
from rich.text import Text

from keras_norm.export.printable import MAX_PRINTED, printable
from keras_norm.export.results.check_result import CheckResult, TrainInferenceGap

Item = TypeVar("Item", bound=Hashable)


def number(value: float | None) -> str:
    """Format a number with two digits and an exponent: "3.1e-07", "0", "nan"; None gives "-"."""
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:.1e}"


def rounded_up(value: float | None) -> str:
    """Format an atol as `number` does, but round up, so that a check with this atol passes."""
    if value is None or not math.isfinite(value) or value == 0:
        return number(value)
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return number(math.ceil(value / unit) * unit)


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table that the terminal and the page show alike.

    Attributes:
        title: the title.
        columns: names of the columns; the first column has names, the other columns have numbers.
        rows: the cells of each row.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def metrics_table(report: CheckResult) -> TextTable:
    """Make the table of the metrics on the labels, of the Keras model and every artifact."""
    known = [
        (result.name, {m.output: m.value for m in result.metrics}) for result in report.artifacts
    ]
    training = {m.output: m.training for m in report.gap.metrics}
    own = {m.output: m.value for m in report.keras.metrics}
    subjects = [("Keras model", own), ("Keras model in training mode", training), *known]
    rows = (
        (name, *(f"{values[output]:.4g}" if output in values else "-" for output in own))
        for name, values in subjects
        if values
    )
    names = (f"{m.output}: {m.name}" for m in report.keras.metrics)
    return TextTable("Metrics, on the labels", ("", *names), tuple(rows))


def gap_table(gap: TrainInferenceGap) -> TextTable:
    """Make the table of the train/inference gap of every output."""
    columns = ("output", "worst abs", "mean abs", "largest output")
    rows = ((x.output, *map(number, (x.worst, x.mean, x.scale))) for x in gap.outputs)
    return TextTable("Train/inference gap, dropout off", columns, tuple(rows))


def group_by_item(pairs: Iterable[tuple[str, Item]]) -> list[tuple[tuple[str, ...], Item]]:
    """Group names by item: ("a", 1), ("b", 1), ("c", 2) gives (("a", "b"), 1), (("c",), 2).

    Args:
        pairs: (name, item) pairs.

    Returns:
        (names, item) pairs, in the order of the first name.
    """
    found: dict[Item, list[str]] = {}
    for name, item in pairs:
        found.setdefault(item, []).append(name)
    return [(tuple(names), item) for item, names in found.items()]


def new_table(title: str, *columns: str | Column) -> Table:
    """Make an empty table in the style of all reports."""
    return Table(
        *columns,
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )


def plain(text: str, style: str = "") -> Text:
    """Make a `rich` text: brackets are printed, not parsed as markup.

    Line breaks and escape sequences are printed as escapes.
    """
    return Text(printable(text, MAX_PRINTED), style)


def add_row(table: Table, *cells: str | Text, style: str | None = None) -> None:
    """Add a row to a table; brackets in strings are printed, not parsed as markup."""
    table.add_row(*(plain(c) if isinstance(c, str) else c for c in cells), style=style)


def breakable(path: str, width: int = 38, after: str = "/") -> Text:
    """Break a layer's path into lines after its slashes, so that no name is split.

    Args:
        path: names joined by slashes.
        width: maximum number of characters in a line; a longer name has a separate line.
        after: the characters after which a line may end.
    """
    lines = [""]
    shown = printable(path, MAX_PRINTED)
    for part in re.findall(rf"[^{re.escape(after)}]*[{re.escape(after)}]?", shown):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(lines))
