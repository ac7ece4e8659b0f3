"""Convert the printed texts and tables of a report to HTML, for a notebook or a page."""

import io
import itertools
from collections.abc import Iterable
from html import escape

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from keras_norm.export.printable import printable

# The text has the color of the page. The other colors have a contrast of about 4 on white and on
# black, because no style sheet knows the theme of every notebook.
COLORS = {"green": "#1a8a3a", "red": "#e5393f", "yellow": "#b26a00", "bright_blue": "#2f7fe0"}
FRAME = "rgb(128 128 128 / .4)"
STYLE = f"""<style>
.keras-norm p {{ margin: .2em 0; white-space: pre-line; overflow-wrap: anywhere; }}
.keras-norm .verdict {{ padding: .4em .8em; border-left: .4em solid; font-size: 1.05em; }}
.keras-norm .wide {{ overflow-x: auto; margin: .6em 0; }}
.keras-norm table {{ border-collapse: collapse; margin: 0; font-size: .95em; }}
.keras-norm caption {{ caption-side: top; text-align: left; font-weight: bold; padding: .3em 0; }}
.keras-norm th, .keras-norm td {{ padding: .2em .7em; border-bottom: 1px solid {FRAME};
  vertical-align: top; white-space: pre-line; background: none; }}
.keras-norm td:last-child {{ min-width: 8em; }}
.keras-norm summary {{ cursor: pointer; margin: .6em 0; }}
</style>"""


def html_fragment(
    renderables: Iterable[RenderableType], color: str = "", more: str = "Details"
) -> str:
    """Convert texts and tables to HTML that needs no other file.

    The first text is the verdict. The first table, and tables directly after it, are visible. The
    texts and tables after them are collapsed.

    Args:
        renderables: texts and tables; all texts are escaped.
        color: the color of the frame beside the verdict, a name in `COLORS`; "" for none.
        more: heading of the collapsed part.
    """
    console = Console(file=io.StringIO(), width=200)
    first, *others = (item for item in renderables if item != "")
    frame = f"; border-color: {COLORS[color]}" if color else ""
    shown = [f'<div class="verdict" style="border-style: none none none solid{frame}">']
    shown += [_convert(first, console), "</div>"]
    is_table = [isinstance(item, Table) for item in others]
    end = is_table.index(True) if any(is_table) else len(others)
    end += len(list(itertools.takewhile(bool, is_table[end:])))
    shown += [_convert(item, console) for item in others[:end]]
    if others[end:]:
        shown.append(f"<details><summary>{escape(more)}</summary>")
        shown += [_convert(item, console) for item in others[end:]]
        shown.append("</details>")
    return f'<div class="keras-norm">{STYLE}{"".join(shown)}</div>'


def _convert(item: RenderableType, console: Console) -> str:
    if isinstance(item, Padding):
        margin = 0.8 * item.left
        return f'<div style="margin-left: {margin:g}em">{_convert(item.renderable, console)}</div>'
    if isinstance(item, Table):
        return _table(item, console)
    return f"<p>{_inline(item, console)}</p>"


def _table(table: Table, console: Console) -> str:
    # Numbers are right-aligned, and not broken after a minus sign.
    wrap = {"right": "; white-space: nowrap"}
    columns = [
        (column, f'style="text-align: {column.justify}{wrap.get(column.justify, "")}"')
        for column in table.columns
    ]
    heads = (f"<th {style}>{_inline(column.header, console)}</th>" for column, style in columns)
    rows = zip(*(column.cells for column in table.columns), strict=True)
    body = []
    for row, cells in zip(table.rows, rows, strict=True):
        found = (
            f"<td {style}>{_inline(cell, console, row.style)}</td>"
            for cell, (_, style) in zip(cells, columns, strict=True)
        )
        body.append(f"<tr>{''.join(found)}</tr>")
    title = f"<caption>{_inline(table.title, console)}</caption>" if table.title else ""
    return (
        f'<div class="wide"><table>{title}<thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _inline(text: RenderableType | None, console: Console, style: str | Style | None = None) -> str:
    """Convert a text of one style or several styles, such as bold or red, to escaped HTML."""
    rich_text = text.copy() if isinstance(text, Text) else Text(str(text or ""))
    for each in (rich_text.style, style):
        if each:
            rich_text.stylize_before(each)
    rich_text.end = ""
    return "".join(_span(s.text, s.style) for s in rich_text.render(console))


def _span(text: str, style: Style | None) -> str:
    rules = []
    if style and style.bold:
        rules.append("font-weight: bold")
    if style and style.dim:
        rules.append("opacity: .75")
    if style and style.color and style.color.name in COLORS:
        rules.append(f"color: {COLORS[style.color.name]}")
    shown = escape("\n".join(printable(line, len(line)) for line in text.split("\n")))
    return f'<span style="{"; ".join(rules)}">{shown}</span>' if rules else shown
