"""What prints itself: on a console, in a notebook, and as a page."""

import abc
import io
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import rich.console

from keras_norm.export.exporting.staging import replace_text


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
        console = console or rich.console.Console()
        for part in self._tables():
            console.print(part)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs no other file.

        Args:
            path: file to write; an existing one is replaced, in one step.

        Raises:
            ImportError: jinja2 or pillow is missing, which draw the report of a check.
        """
        replace_text(pathlib.Path(path), self.page())
