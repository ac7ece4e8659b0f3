"""Write the texts and tables of a report as HTML, for a notebook and for an HTML page."""

import itertools
import re
from collections.abc import Iterable
from html import escape

from keras_norm.export.report.tables import BLANK, Cell, Lines, Paragraph, Table
from keras_norm.export.report.terminal import BREAKS
from keras_norm_verify.printable import printable

# Normal text has the text color of the notebook. The notebook's background may be white or black,
# so the other colors are readable on both: their contrast ratio is about 4.
STYLE = """<style>
.keras-norm p { margin: .2em 0; overflow-wrap: anywhere; }
.keras-norm p.indent { margin-left: 1.6em; }
.keras-norm .verdict { padding: .4em .8em; border-left: .4em solid; font-size: 1.05em; }
.keras-norm .scroll { overflow-x: auto; margin: .6em 0; }
.keras-norm table { border-collapse: collapse; margin: 0; font-size: .95em; }
.keras-norm caption { caption-side: top; text-align: left; font-weight: bold; padding: .3em 0; }
.keras-norm th, .keras-norm td { padding: .2em .7em; border-bottom: 1px solid rgb(128 128 128 / .4);
  vertical-align: top; text-align: left; background: none; }
.keras-norm td:last-child { min-width: 8em; }
.keras-norm th.number, .keras-norm td.number { text-align: right; white-space: nowrap; }
.keras-norm td span, .keras-norm small { display: block; }
.keras-norm .dim, .keras-norm small { opacity: .75; }
.keras-norm :is(span, td):is(.bold, .fail, .approximate) { font-weight: bold; }
.keras-norm :is(span, td):is(.pass, .ok) { color: #1a8a3a; }
.keras-norm :is(span, td).fail { color: #e5393f; }
.keras-norm :is(span, td).approximate { color: #2f7fe0; }
.keras-norm :is(span, td):is(.large, .differs) { color: #b26a00; }
.keras-norm .verdict.pass { border-color: #1a8a3a; }
.keras-norm .verdict.fail { border-color: #e5393f; }
.keras-norm .verdict.approximate { border-color: #2f7fe0; }
.keras-norm summary { cursor: pointer; margin: .6em 0; }
</style>"""


def html_fragment(items: Iterable[Paragraph | Table], status: str = "") -> str:
    """Write texts and tables as HTML that needs no other file.

    The first texts, up to an indented text or an empty line, are the verdict. The first table, and
    tables directly after it, are visible. The texts and tables after them are collapsed.

    Args:
        items: texts and tables; all texts are escaped.
        status: the status that colors the frame of the verdict; "" for no color.
    """
    every = list(items)
    verdict = list(itertools.takewhile(_is_verdict, every))
    others = [item for item in every[len(verdict) :] if item != BLANK]
    is_table = [isinstance(item, Table) for item in others]
    end = is_table.index(True) if any(is_table) else len(others)
    end += len(list(itertools.takewhile(bool, is_table[end:])))
    shown = [f'<div class="verdict {status}">', *map(_html, verdict), "</div>"]
    shown += map(_html, others[:end])
    if others[end:]:
        shown += ["<details><summary>Details</summary>", *map(_html, others[end:]), "</details>"]
    return f'<div class="keras-norm">{STYLE}{"".join(shown)}</div>'


def _is_verdict(item: Paragraph | Table) -> bool:
    return isinstance(item, Paragraph) and not item.indent and item != BLANK


def _html(item: Paragraph | Table) -> str:
    if isinstance(item, Table):
        return html_table(item, "text")
    parts = (
        f'<span class="{_escaped(style)}">{_escaped(text)}</span>' for text, style in item.parts
    )
    return f'<p class="{"indent" if item.indent else ""}">{"".join(parts)}</p>'


def html_table(table: Table, view: str) -> str:
    """Return the HTML of one table of a report.

    Args:
        table: the table.
        view: "page" for the page, with bars, images and the explanation of the columns; "text" for
            a notebook, with the title.
    """
    columns = [k for k, column in enumerate(table.columns) if column.view in ("", view)]
    heads = (
        f'<th class="{table.columns[k].kind}">{_escaped(table.columns[k].name)}</th>'
        for k in columns
    )
    body = []
    for row in table.rows:
        cells = [_cell(row[k], table, k) for k in columns if k < len(row)]
        spanned = sum(k >= len(row) for k in columns)
        if spanned:
            cells[-1] = cells[-1].replace("<td", f'<td colspan="{spanned + 1}"', 1)
        body.append(f"<tr>{''.join(cells)}</tr>")
    text = _escaped(table.title if view == "text" else table.about)
    caption = f"<caption>{text}</caption>" if text else ""
    return (
        f'<div class="scroll"><table>{caption}'
        f"<thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _cell(cell: str | Cell, table: Table, k: int) -> str:
    """Return the HTML of a table cell; a narrow page shows the column's name in the cell."""
    column, cell = table.columns[k], cell if isinstance(cell, Cell) else Cell(cell)
    shown = _lines(cell.text, breaks=column.kind in BREAKS)
    if cell.used is not None:
        shown += _bar(cell.used)
    if cell.image:
        shown += f'<img class="strip" src="{cell.image}" alt="{_escaped(column.name)}">'
    if cell.note:
        shown += f"<small>{_escaped(cell.note, breaks=True)}</small>"
    name = _escaped(column.name or "verdict")
    kinds = f"{column.kind} {_escaped(cell.style.replace(' ', '-'))}".strip()
    shown = f"<div>{shown}</div>" if shown else ""  # a narrow page hides a cell without content
    return f'<td data-name="{name}" class="{kinds}">{shown}</td>'


def _bar(used: float) -> str:
    """Return the HTML of a bar for |difference| / tolerance, on a logarithmic scale."""
    from keras_norm.export.report.plots import color_levels

    level = float(color_levels(used, 1.0))
    beyond = "beyond" if level > 1 else ""
    return f'<div class="meter"><i class="{beyond}" style="width: {50 * level:.0f}%"></i></div>'


def _lines(text: Lines, breaks: bool = False) -> str:
    if isinstance(text, str):
        return _escaped(text, breaks)
    return "".join(f"<span>{_escaped(line, breaks)}</span>" for line in text)


def _escaped(text: str, breaks: bool = False) -> str:
    """Escape a text for HTML; with `breaks`, a line may end after "_", "/" and "." in a name."""
    shown = escape(printable(text, len(text)))
    return re.sub(r"([_/.])(?=[A-Za-z])", r"\1<wbr>", shown) if breaks else shown
