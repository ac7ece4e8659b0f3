"""The report of a comparison of model versions, as text, JSON and HTML."""

import dataclasses
from collections.abc import Iterator

from keras_norm.export.report.report import Printed
from keras_norm.export.report.tables import (
    BLANK,
    Cell,
    Column,
    Paragraph,
    Row,
    Table,
    number,
    number_columns,
    paragraph,
)
from keras_norm.export.results.json_dataclass import JsonDataclass
from keras_norm.export.results.output_change import OutputChange
from keras_norm.export.results.output_comparison import describe_position
from keras_norm_verify.printable import MAX_PRINTED, printable

# The table of class changes ("cat" to "dog") has at most 8 rows. The table of changed predictions
# has at most 10 rows.
CLASS_CHANGES, SHOWN = 8, 10


@dataclasses.dataclass(frozen=True, repr=False)
class VersionReport(Printed, JsonDataclass):
    """The report of `keras_norm.export.compare_versions` about predictions that changed.

    A notebook shows the report as a table.

    Attributes:
        old: name of the old version.
        samples: number of samples.
        versions: (name, one entry for every output) pairs, one for each new version.
    """

    NOUN = "comparison of versions"

    old: str
    samples: int
    versions: tuple[tuple[str, tuple[OutputChange, ...]], ...]

    @property
    def verdict(self) -> str:
        """Text about the changed predictions, with one line for each new version of the model."""
        return "\n".join(_verdict(name, outputs) for name, outputs in self.versions)

    def __repr__(self) -> str:
        return f"<VersionReport against {self.old!r}: {printable(self.verdict, MAX_PRINTED)}>"

    def page(self) -> str:
        """Return the HTML page that `to_html` writes."""
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Versions</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f'<body style="font-family: sans-serif">{self._repr_html_()}</body></html>\n'
        )

    def _items(self) -> Iterator[Paragraph | Table]:
        yield paragraph(f"Compared with {self.old}, on {self.samples} samples", "bold")
        yield from map(paragraph, self.verdict.split("\n"))
        yield BLANK
        for name, outputs in self.versions:
            for output in outputs:
                # Print the title as a text, because rich wraps a title at the width of its table.
                if output.class_changes:
                    title = f"{name}, {output.output}: number of changes from an old to a new class"
                    yield paragraph(title, "bold")
                    yield _class_changes(output)
                if output.largest_changes:
                    title = f"{name}, {output.output}: the predictions that changed most"
                    yield paragraph(title, "bold")
                    yield _largest_changes(output)


def _verdict(name: str, outputs: tuple[OutputChange, ...]) -> str:
    parts = []
    for output in outputs:
        text = f"{output.output}: differs by up to {output.largest:.2g}"
        if output.classes:
            share = output.changed / (output.predictions or 1)
            text = f"{output.output}: {output.changed} of {output.predictions} predictions change"
            text += f" ({share:.2%})"
        if output.classes and output.metrics and output.metrics[0].name == "accuracy":
            text += f", {output.fixed} become right and {output.broken} wrong"
        if output.lost:
            text += f", {output.lost} of {output.values} values became NaN or infinite"
        if output.metrics is not None:
            old, new = output.metrics
            text += f", {old.name} {old.value:.4g} -> {new.value:.4g}"
        parts.append(text)
    return f"{name}: {'; '.join(parts)}"


def _class_changes(output: OutputChange) -> Table:
    shown, others = output.class_changes[:CLASS_CHANGES], output.class_changes[CLASS_CHANGES:]
    rows: list[Row] = [(f"{c.before:g}", f"{c.after:g}", str(c.count)) for c in shown]
    if others:
        rows.append(("others", "", str(sum(change.count for change in others))))
    return Table("", number_columns("old", "new", "predictions"), tuple(rows))


def _largest_changes(output: OutputChange) -> Table:
    rows: list[Row] = []
    for change in output.largest_changes[:SHOWN]:
        where = describe_position(change.where)
        label = "-" if change.label is None else f"{change.label:.4g}"
        values = f"{change.before:.4g}", f"{change.after:.4g}", label, number(change.size)
        style = ""
        if output.classes and change.label is not None:
            style = "pass" if change.after == change.label else style
            style = "fail" if change.before == change.label else style
        rows.append((where, *(Cell(value, style) for value in values)))
    columns = number_columns("old", "new", "label", "outputs differ by")
    return Table("", (Column("where"), *columns), tuple(rows))
