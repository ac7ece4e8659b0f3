"""Tables on a terminal, and in Markdown."""

import rich.box
import rich.console
import rich.table
import rich.text

from benchmarks.goals import REACHED, UNREACHED
from benchmarks.results import Results, describe
from benchmarks.tables import Table, markdown_tables, terminal_tables

STYLES = {REACHED: "green", UNREACHED: "red"}


def print_tables(results: Results, console: rich.console.Console) -> None:
    """Show every table that has rows."""
    console.print(f"\n{_made(results)}", highlight=False)
    for warning in _warnings(results):
        console.print(warning, style="yellow", highlight=False)
    for table in terminal_tables(results):
        if table.rows:
            console.print(f"\n{table.title}\n", style="bold", highlight=False)
            console.print(_rich(table))
            if table.note:
                console.print(table.note, style="dim", highlight=False)


def markdown(results: Results) -> str:
    """The README's table and those of docs/speed.md, the machine named above them."""
    parts = [_made(results), *_warnings(results)]
    for table in markdown_tables(results):
        if not table.rows:
            continue
        parts += [f"**{table.title}**", _markdown_rows(table)]
        if table.note:
            parts.append(table.note)
    return "\n\n".join(parts)


def _made(results: Results) -> str:
    made = results.settings
    return (
        f"{describe(results.machine)}; at least {made['rounds']} rounds, "
        f"{made['cold_rounds']} of fresh processes; {made['date']}"
    )


def _warnings(results: Results) -> list[str]:
    return [
        f"A program was compiled in every try at {m.suite}, {m.mode}, {m.shape}: its times are off."
        for m in results.measurements
        if m.compiled
    ]


def _rich(table: Table) -> rich.table.Table:
    shown = rich.table.Table(
        box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    for i, column in enumerate(table.columns):
        shown.add_column(column, justify="right" if i else "left", no_wrap=True)
    indent = "  " if any(len(row) == 1 for row in table.rows) else ""
    for row in table.rows:
        if len(row) == 1:
            shown.add_row(rich.text.Text(row[0], style="bold"))
        else:
            first, *others = row
            cells = [indent + first, *others]
            shown.add_row(*(rich.text.Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return shown


def _markdown_rows(table: Table) -> str:
    width = len(table.columns)
    lines = [table.columns, ("---", *["---:"] * (width - 1))]
    for row in table.rows:
        lines.append(row if len(row) == width else (f"**{row[0]}**", *[""] * (width - 1)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
