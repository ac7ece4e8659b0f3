"""What another version predicts differently, as text, JSON and HTML."""

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import rich.console
from rich.text import Text

from keras_norm.export.exporting.staging import replace_text
from keras_norm.export.report.terminal import add_row, as_html, new_table, number
from keras_norm.export.results.changes import Changes, OutputChange
from keras_norm.export.results.plain import to_plain

# Flips from one class to another that are shown, and changed predictions.
FLIPS, SHOWN = 8, 10


class VersionReport(Changes):
    """What `compare_versions` found; its attributes are those of `Changes`."""

    def __repr__(self) -> str:
        return f"<VersionReport against {self.old!r}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """The tables of `print`, for a notebook."""
        return as_html(self.print)

    def to_json(self) -> str:
        """All of it as JSON text; `from_json` reads it."""
        return json.dumps(to_plain(self), indent=2, allow_nan=False) + "\n"

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the tables of `print` as one page that needs no other file.

        Args:
            path: file to write; an existing one is replaced, in one step.
        """
        replace_text(pathlib.Path(path), self.page())

    def page(self) -> str:
        """The text of `to_html`."""
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Versions</title>'
            f"<body>{as_html(self.print)}</body></html>\n"
        )

    def print(self, console: rich.console.Console | None = None) -> None:
        """Print what changed.

        Args:
            console: where to; the standard output by default.
        """
        console = console or rich.console.Console()
        for part in _tables(self):
            console.print(part)


def _tables(report: Changes) -> Iterator[Any]:
    yield Text(f"Against {report.old}, on {report.samples} samples", style="bold")
    yield Text(report.verdict)
    for name, outputs in report.versions:
        for output in outputs:
            # Above the table, not its title: that would be no wider than the table is.
            if output.flips:
                yield Text(f"\n{name}, {output.output}: from which class to which", "bold")
                yield _flips(output)
            if output.listed:
                yield Text(f"{name}, {output.output}: the predictions that changed most", "bold")
                yield _listed(output)


def _flips(output: OutputChange) -> Any:
    table = new_table("")
    for column in ("old", "new", "predictions"):
        table.add_column(column, justify="right")
    for flip in output.flips[:FLIPS]:
        add_row(table, f"{flip.before:g}", f"{flip.after:g}", str(flip.count))
    more = sum(flip.count for flip in output.flips[FLIPS:])
    if more:
        add_row(table, "others", "", str(more), style="dim")
    return table


def _listed(output: OutputChange) -> Any:
    table = new_table("")
    table.add_column("where", overflow="fold")
    for column in ("old", "new", "label", "outputs differ by"):
        table.add_column(column, justify="right")
    for change in output.listed[:SHOWN]:
        where = ", ".join(f"{axis} {index}" for axis, index in change.where)
        label = "-" if change.label is None else f"{change.label:.4g}"
        values = f"{change.before:.4g}", f"{change.after:.4g}", label, number(change.size)
        right = output.classes and change.label is not None
        style = "green" if right and change.after == change.label else None
        style = "red" if right and change.before == change.label else style
        add_row(table, where, *values, style=style)
    return table
