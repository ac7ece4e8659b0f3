"""The report of `check`, with methods that write it as text, JSON and HTML."""

import abc
import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import rich.console

from keras_norm.export.formats.staging import replace_text
from keras_norm.export.report.difference_plot import plot_differences
from keras_norm.export.report.html_fragment import html_fragment
from keras_norm.export.report.html_page import render
from keras_norm.export.report.report_text import report_items
from keras_norm.export.report.tables import Paragraph, Table
from keras_norm.export.report.terminal import to_rich
from keras_norm.export.results.check_result import CheckResult
from keras_norm_verify.printable import MAX_PRINTED, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Printed(abc.ABC):
    """Base class of reports that can be printed, written as HTML and shown in a notebook."""

    @abc.abstractmethod
    def _items(self) -> Iterator[Paragraph | Table]:
        """Yield the texts and tables that `print` prints."""

    @abc.abstractmethod
    def page(self) -> str:
        """Return the HTML page that `to_html` writes."""

    def _repr_html_(self) -> str:
        """Return the printed report as HTML, for a notebook."""
        return html_fragment(self._items(), self._status())

    def _status(self) -> str:
        """Return the status, such as "pass", that sets the verdict's color; "" for no color."""
        return ""

    def print(self, console: rich.console.Console | None = None) -> None:
        """Print the report as tables that fit 80 columns.

        Args:
            console: the console to print to; the standard output by default.
        """
        (console or rich.console.Console()).print(*to_rich(self._items()), sep="\n")

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML page that needs no other file.

        Args:
            path: file to write; an existing file is replaced in one atomic step.

        Raises:
            ImportError: jinja2 or pillow is missing; the report of a check needs both.
        """
        replace_text(pathlib.Path(path), self.page())


@dataclasses.dataclass(frozen=True, repr=False)
class Report(Printed, CheckResult):
    """The result of `keras_norm.export.check` as a report; falsy when any check failed.

    `status` is "pass", "approximate" or "fail". "pass": every artifact equals the Keras model
    within rounding. "approximate": an artifact is quantized (8 bits or float16) and within the
    limit for its precision. The report is then true, so that a test passes, but the outputs differ:
    `verdict`, and `errors` of each output, have the changed predictions and the error.

    A notebook shows the report as a table. `keras_norm.export.check` creates it, so the constructor
    is not documented.

    Attributes:
        model: name of the Keras model.
        artifacts: one result for every artifact and runtime.
        gap: the difference between training mode and inference mode.
        findings: observations with advice.
        notes: facts that explain a number, and tests that were left out, with the reasons.

    Example:
        >>> report = check(model, export_tflite(model, "digits.tflite"), x_test)
        >>> bool(report), report.status, report.artifacts[0].name
        (True, 'pass', 'digits.tflite')
        >>> report.to_html("report.html")
    """

    def __repr__(self) -> str:
        return f"<Report of {self.model!r}: {printable(self.verdict, MAX_PRINTED)}>"

    def to_json(self) -> str:
        """Return the whole report as JSON text; NaN and infinity are strings in it."""
        # Write each list of numbers in one line. The pattern matches only text with a line break,
        # and a JSON string has no line break, so no string changes.
        one_line = r'\[\n[^]["{}]*\]'
        return re.sub(one_line, lambda found: " ".join(found[0].split()), super().to_json())

    def plot(self) -> "Figure":
        """Draw the differences from the Keras model over the timesteps, with the tolerance.

        Each output has its own axes, and each artifact a line: the largest absolute difference over
        all samples and units at each timestep. Outputs without timesteps are drawn over their
        units. A dashed line is the tolerance at the output's largest value. For 8-bit files it is
        the limit of the root mean square, which single values may exceed.

        Returns:
            A figure of Matplotlib. A notebook shows it; `figure.savefig("differences.png")` writes
            it.

        Raises:
            ValueError: no output could be compared.
            ImportError: Matplotlib is not installed.

        Example:
            >>> path = export_saved_model(model, "served")
            >>> check(model, path, x_test).plot().savefig("differences.png")
        """
        return plot_differences(self)

    def page(self) -> str:
        """Return the HTML page that `to_html` writes."""
        return render(self)

    def _items(self) -> Iterator[Paragraph | Table]:
        return report_items(self)

    def _status(self) -> str:
        return self.status
