"""What a check found, and its forms as text, JSON and HTML."""

import abc
import dataclasses
import io
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import rich.console

from keras_norm.export.formats.staging import replace_text
from keras_norm.export.report.html_page import render
from keras_norm.export.report.terminal import report_tables
from keras_norm.export.results.check_outcome import Outcome


class Printed(abc.ABC):
    """A report with its forms for people; those for programs are `to_json` and `from_json`."""

    @abc.abstractmethod
    def _tables(self) -> Iterator[Any]:
        """What `print` prints, one after the other."""

    @abc.abstractmethod
    def page(self) -> str:
        """The text of `to_html`."""

    def _repr_html_(self) -> str:
        """The tables of `print`, for a notebook."""
        console = rich.console.Console(file=io.StringIO(), record=True, width=100)
        self.print(console)
        form = '<pre style="line-height: 1.2">{code}</pre>'  # in which nothing moves
        return console.export_html(inline_styles=True, code_format=form)

    def print(self, console: rich.console.Console | None = None) -> None:
        """Print the report as tables that fit 80 columns.

        Args:
            console: where to; the standard output by default.
        """
        (console or rich.console.Console()).print(*self._tables(), sep="\n")

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs no other file.

        Args:
            path: file to write; an existing one is replaced, in one step.

        Raises:
            ImportError: jinja2 or pillow is missing, which draw the report of a check.
        """
        replace_text(pathlib.Path(path), self.page())


@dataclasses.dataclass(frozen=True, repr=False)
class Report(Printed, Outcome):
    """What `check` found. Falsy when any check failed; its attributes are those of `Outcome`."""

    def __repr__(self) -> str:
        return f"<Report of {self.model!r}: {self.verdict}>"

    def to_json(self) -> str:
        """The whole report as JSON text; NaN and infinity are text within it."""
        # Lists of numbers in one line; no text in JSON holds a line break.
        one_line = r'\[\n[^]["{}]*\]'
        return re.sub(one_line, lambda found: " ".join(found[0].split()), super().to_json())

    def page(self) -> str:
        """The text of `to_html`."""
        return render(self)

    def _tables(self) -> Iterator[Any]:
        return report_tables(self)
