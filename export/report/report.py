"""What a check found, and its forms as text, JSON and HTML."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from keras_norm.export.report.page import render
from keras_norm.export.report.printed import Printed
from keras_norm.export.report.terminal import report_tables
from keras_norm.export.results.outcome import Outcome


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
