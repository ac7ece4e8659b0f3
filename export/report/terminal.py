"""Print the texts and tables of a report in a terminal of at least 80 columns."""

import re
from collections.abc import Iterable

import rich.table
from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from keras_norm.export.report.tables import Cell, Column, Lines, Paragraph, Table
from keras_norm_verify.printable import MAX_PRINTED, printable

# Color of each verdict and status of a report, as a style of rich.
STYLES = {
    "pass": "green",
    "ok": "green",
    "approximate": "bold bright_blue",
    "fail": "bold red",
    "large": "yellow",
    "differs": "yellow",
    "not measured": "yellow",
    "advice": "cyan",
}
# The kind of a column -> characters after which a long name may continue on a new line.
BREAKS = {"name": "/_. ", "output": "/_. ", "path": "/"}


def to_rich(items: Iterable[Paragraph | Table]) -> Iterable[RenderableType]:
    """Convert texts and tables to objects that rich prints in a terminal.

    Brackets are printed, not parsed as markup. Line breaks and escape sequences in a name are
    printed as escapes, so that a name cannot add a line to a report.
    """
    return (_table(item) if isinstance(item, Table) else _paragraph(item) for item in items)


def _paragraph(item: Paragraph) -> RenderableType:
    text = Text.assemble(*(_styled(*part) for part in item.parts), "\n" * item.space)
    return Padding(text, (0, 0, 0, 2 * item.indent)) if item.indent else text


def _table(item: Table) -> rich.table.Table:
    table = rich.table.Table(
        title=_styled(item.title, "bold") if item.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    columns = [(k, c) for k, c in enumerate(item.columns) if c.view in ("", "text")]
    for _, column in columns:
        table.add_column(
            _styled(column.name, ""),
            justify="right" if column.kind == "number" else "left",
            no_wrap=column.kind == "word",
            max_width=column.width,
            overflow="fold",
        )
    for row in item.rows:
        filled = [*row[:-1], *[""] * (len(item.columns) - len(row)), row[-1]]
        table.add_row(*(_cell(filled[k], column) for k, column in columns))
    return table


def _cell(cell: str | Cell, column: Column) -> Text:
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    lines = _lines(cell.text, cell.style)
    if column.kind in BREAKS and column.width is not None:
        lines = [breakable(line.plain, column.width - 1, BREAKS[column.kind]) for line in lines]
    return Text("\n").join(lines)


def _lines(text: Lines, style: str = "") -> list[Text]:
    return [_styled(line, style) for line in ((text,) if isinstance(text, str) else text)]


def _styled(text: str, style: str) -> Text:
    return Text(printable(text, MAX_PRINTED), STYLES.get(style, style))


def breakable(name: str, width: int, after: str) -> Text:
    """Break a long name, such as a layer's path, into lines that end after "/" for example.

    Args:
        name: the name, such as the path of a layer, with names joined by slashes.
        width: maximum number of characters in a line; a longer part has a separate line.
        after: the characters after which a line may end.
    """
    lines = [""]
    for part in re.findall(rf"[^{re.escape(after)}]*[{re.escape(after)}]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(lines))
