"""Texts and tables of a report, as data that a terminal, a notebook or an HTML page shows."""

import dataclasses
import math
from collections.abc import Hashable, Iterable
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)

# A text with one line; or a tuple of texts, one text for each line.
Lines = str | tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a report's table: the heading, the width and the kind of the cells.

    Attributes:
        name: the heading.
        kind: the kind of the cells, which is also their CSS class on the page: "number" (aligned at
            the right), "word" (a verdict), "status", "name", "path", "used" or "text". Names and
            paths are long, and break between their parts.
        width: largest number of characters in a terminal; None for no limit.
        view: the only view with this column, "page" or "text" (terminal and notebook); "" for all.
    """

    name: str
    kind: str = "text"
    width: int | None = None
    view: str = ""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell of a report's table: a text with a color, a note, a bar or an image.

    Attributes:
        text: the text.
        style: a verdict or status such as "fail", which sets the color; "" for no color.
        note: a remark in small type, on the page and in a notebook.
        used: the share of the tolerance that a bar shows on the page; None for no bar.
        image: a picture in a data URI, on the page; "" for none.
    """

    text: Lines
    style: str = ""
    note: str = ""
    used: float | None = None
    image: str = ""


Row = tuple[str | Cell, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a report: a title, columns and rows.

    Attributes:
        title: the title; "" for none.
        columns: the columns.
        rows: the cells of each row. The last cell of a shorter row spans the rest of the row.
        about: an explanation of the columns, on the page.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    about: str = ""


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """A text between the tables of a report.

    Attributes:
        parts: (text, style) pairs: a style is a verdict or status, "bold", "dim" or "".
        indent: whether the text belongs to the text above.
        space: whether an empty line follows in a terminal.
    """

    parts: tuple[tuple[str, str], ...]
    indent: bool = False
    space: bool = False


def paragraph(text: str, style: str = "", space: bool = False) -> Paragraph:
    """Make a text of a report in one style, such as "bold" or "dim"."""
    return Paragraph(((text, style),), space=space)


def number_columns(*names: str, width: int | None = None) -> tuple[Column, ...]:
    """Make a column of numbers for each heading; a terminal wraps headings at `width`."""
    return tuple(Column(name, "number", width) for name in names)


BLANK = paragraph("")  # A terminal shows this paragraph as an empty line.


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
