"""What a check found, and its forms as text, JSON and HTML."""

import dataclasses
import json
import os
import pathlib
import re

import rich.console

from keras_norm.export.exporting.staging import replace_text
from keras_norm.export.report.page import render
from keras_norm.export.report.terminal import as_html, report_tables
from keras_norm.export.results.outcome import Outcome
from keras_norm.export.results.plain import to_plain


@dataclasses.dataclass(frozen=True, repr=False)
class Report(Outcome):
    """What `check` found. Falsy when any check failed; its attributes are those of `Outcome`."""

    def __repr__(self) -> str:
        return f"<Report of {self.model!r}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """The tables of `print`, for a notebook."""
        return as_html(self.print)

    def to_json(self) -> str:
        """The whole report as JSON text; NaN and infinity are text within it."""
        text = json.dumps(to_plain(self), indent=2, allow_nan=False) + "\n"
        # Lists of numbers in one line; no text in JSON holds a line break.
        return re.sub(r'\[\n[^]["{}]*\]', lambda found: " ".join(found[0].split()), text)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs no other file.

        Args:
            path: file to write; an existing one is replaced, in one step.

        Raises:
            ImportError: jinja2 or pillow is missing.
        """
        replace_text(pathlib.Path(path), render(self))

    def print(self, console: rich.console.Console | None = None) -> None:
        """Print the report as tables that fit 80 columns.

        Args:
            console: where to; the standard output by default.
        """
        console = console or rich.console.Console()
        for part in report_tables(self):
            console.print(part)
