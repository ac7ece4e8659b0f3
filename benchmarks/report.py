"""Print the tables in a terminal or as Markdown."""

import rich.box
import rich.console
import rich.table
import rich.text

from benchmarks.goals import REACHED, UNREACHED
from benchmarks.results import Results, describe
from benchmarks.tables import Table, markdown_tables, terminal_tables

STYLES = {REACHED: "green", UNREACHED: "red"}


def print_tables(results: Results, console: rich.console.Console) -> None:
    """Print every table that has rows."""
    console.print(f"\n{_describe(results)}", highlight=False)
    for warning in _warnings(results):
        console.print(warning, style="yellow", highlight=False)
    for table in terminal_tables(results):
        if table.rows:
            console.print(f"\n{table.title}\n", style="bold", highlight=False)
            console.print(_rich(table))
            if table.note:
                console.print(table.note, style="dim", highlight=False)


def markdown(results: Results) -> str:
    """Return the tables of docs/guides/benchmarks.md as Markdown, after the machine."""
    parts = [_describe(results), *_warnings(results)]
    for table in markdown_tables(results):
        if not table.rows:
            continue
        parts += [f"**{table.title}**", markdown_rows(table)]
        if table.note:
            parts.append(table.note)
    return "\n\n".join(parts)


def _describe(results: Results) -> str:
    run = results.settings
    return (
        f"{describe(results.machine)}; at least {run['rounds']} rounds, "
        f"{run['cold_rounds']} of fresh processes; {run['date']}"
    )


def _warnings(results: Results) -> list[str]:
    return [
        f"XLA compiled in every attempt at {m.suite}, {m.mode}, {m.shape}; the times include it."
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
            first, *rest = row
            cells = [indent + first, *rest]
            shown.add_row(*(rich.text.Text(cell, style=STYLES.get(cell, "")) for cell in cells))
    return shown


def markdown_rows(table: Table) -> str:
    """Return the rows of a table as Markdown."""
    width = len(table.columns)
    lines = [_line(table.columns), f"|---{'|---:' * (width - 1)}|"]
    for row in table.rows:
        lines.append(_line(row) if len(row) == width else f"| **{row[0]}** {'|' * width}")
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
