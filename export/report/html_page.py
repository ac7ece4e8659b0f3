"""Render a report as one HTML page that needs no other file."""

import dataclasses
import re
from typing import TYPE_CHECKING

import numpy as np

from keras_norm.export.packages import require
from keras_norm.export.printable import printable
from keras_norm.export.report.tables import (
    gap_table,
    group_by_item,
    metrics_table,
    number,
    rounded_up,
)
from keras_norm.export.report.terminal import (
    QUANTIZED_ABOUT,
    QUANTIZED_TITLE,
    STATISTICS_TITLE,
    VALUES_TITLE,
    advice_title,
    describe_errors,
    join_indices,
    position,
    tolerances,
    updates,
)
from keras_norm.export.results.artifact_result import (
    ArtifactResult,
    PropertyResult,
    readable_size,
)
from keras_norm.export.results.check_result import CheckResult
from keras_norm.export.results.output_comparison import (
    ErrorStatistics,
    OutputComparison,
    OutputResult,
)

if TYPE_CHECKING:
    import markupsafe

# Number of outputs whose images are visible at first: the outputs with the largest differences,
# relative to the tolerance. The images of further outputs are collapsed.
OPEN_OUTPUTS = 4


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the table of outputs: one output, or all outputs without differences from Keras.

    Attributes:
        names: names of the artifacts.
        outputs: names of the outputs.
        result: the result of the first of `outputs`.
        quantized: whether the artifacts are quantized.
    """

    names: tuple[str, ...]
    outputs: tuple[str, ...]
    result: OutputResult
    quantized: bool

    @property
    def worst(self) -> OutputComparison:
        """The comparison of the output on the test input that needs the largest tolerance."""
        return self.result.comparisons[self.result.worst_case]

    @property
    def errors(self) -> ErrorStatistics:
        """The error over all data; without numbers if the values could not be compared."""
        return self.result.errors or ErrorStatistics()


def render(report: CheckResult) -> str:
    """Render the HTML page: verdict, tables and images; styles and images are embedded.

    Args:
        report: the report.

    Raises:
        ImportError: jinja2 or pillow is missing.
    """
    require("report")
    import jinja2

    from keras_norm.export.report.plots import color_levels, difference_map, draw_distances

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_norm.export.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breaks"] = _with_breaks
    environment.globals.update(
        describe_errors=describe_errors,
        difference_map=difference_map,
        join_indices=join_indices,
        number=number,
        percent=percent,
        position=position,
        rounded_up=rounded_up,
        size=readable_size,
        draw_distances=draw_distances,
        updates=updates,
        color_level=lambda share: float(color_levels(np.array(share), 1.0)),
    )
    subjects = (report.keras, *report.artifacts)
    rows = value_rows(report)
    lines: list[ArtifactResult | Row] = [r for r in report.artifacts if r.error is not None]
    lines += rows
    exact, quantized = ([x for x in lines if x.quantized == kind] for kind in (False, True))
    costs = [(r, r.cost) for r in subjects if r.cost is not None]
    batches = [batch for _, cost in costs[:1] for batch, _ in cost.latency]
    page: str = environment.get_template("report.html").render(
        report=report,
        failures=group_by_item(
            (f.subject, (f.meaning or f.check, f.detail)) for f in report.failures
        ),
        findings=group_by_item((f.subject, (f.observation, f.advice)) for f in report.findings),
        advice_title=advice_title(report),
        exact=exact,
        quantized=quantized,
        values_title=VALUES_TITLE,
        quantized_title=QUANTIZED_TITLE.format(report.samples),
        quantized_about=QUANTIZED_ABOUT,
        drawn=_rows_with_differences(rows),
        open_outputs=OPEN_OUTPUTS,
        properties=property_rows(report),
        metrics=metrics_table(report),
        gap=gap_table(report.gap),
        statistics_title=STATISTICS_TITLE,
        costs=costs,
        cost_columns={"artifact": "", "precision": "", "size": "n"}
        | {f"ms, batch {batch}": "n" for batch in batches},
        ops=group_by_item((r.name, cost.ops) for r, cost in costs if cost.ops),
        tolerances=tolerances(report),
    )
    return page


@dataclasses.dataclass(frozen=True)
class PropertyRow:
    """A row of the table of tested properties: one property, such as "row independence".

    Attributes:
        name: name of the property.
        detail: the detail of the first column that passes, shown once for the whole row.
        results: the result in each column; None if the property was not tested.
    """

    name: str
    detail: str
    results: tuple[PropertyResult | None, ...]


def property_rows(report: CheckResult) -> tuple[list[tuple[str, ...]], list[PropertyRow]]:
    """Make the table of tested properties: a column per artifact, and a row per property.

    Artifacts with equal results share a column.

    Args:
        report: the report.
    """
    subjects = (report.keras, *report.artifacts)
    tested = group_by_item((r.name, r.properties) for r in subjects if r.error is None)
    rows = []
    for name in dict.fromkeys(p.name for r in subjects for p in r.properties):
        found = [next((p for p in properties if p.name == name), None) for _, properties in tested]
        detail = next((p.detail for p in found if p is not None and p.status == "pass"), "")
        rows.append(PropertyRow(name, detail, tuple(found)))
    return [names for names, _ in tested], rows


def value_rows(report: CheckResult) -> list[Row]:
    """Make the rows of the table of outputs: failures first, then the largest differences.

    The differences are relative to the tolerance. Artifacts with equal results share a row. All
    outputs without any difference share one row too.

    Args:
        report: the report.
    """
    equal: dict[tuple[tuple[str, ...], bool], list[OutputResult]] = {}
    rows = []
    for names, (result, quantized) in group_by_item(
        (a.name, (output, a.quantized)) for a in report.artifacts for output in a.outputs
    ):
        if result.passed and result.max_abs == 0:
            equal.setdefault((names, quantized), []).append(result)
        else:
            rows.append(Row(names, (result.output,), result, quantized))
    rows.sort(key=lambda row: (not row.result.passed, _used_share(row.result)), reverse=True)
    return rows + [
        Row(names, tuple(result.output for result in results), results[0], quantized)
        for (names, quantized), results in equal.items()
    ]


def percent(share: float | None) -> str:
    """Format a difference as a share of its tolerance: "under 0.1%", "3.1%", "25 times"."""
    if share is None:
        return "-"
    if share > 1e4:
        return "over 10,000 times"
    if share >= 10:
        return f"{share:.0f} times"
    if 0 < share < 1e-3:
        return "under 0.1%"
    return f"{100 * share:.1f}%" if 0 < share < 0.1 else f"{100 * share:.0f}%"


def _printable(value: object) -> object:
    """Escape the control characters of a text that the page shows, such as the writing direction.

    Every value of the template passes this function. HTML of the template itself does not change.
    """
    return printable(value, len(value)) if type(value) is str else value


def _with_breaks(text: str) -> "markupsafe.Markup":
    """Escape a text as HTML, with line break opportunities between the parts of long names."""
    import markupsafe

    return markupsafe.Markup(
        re.sub(
            r"([_/.])(?=[A-Za-z])",
            r"\1<wbr>",
            str(markupsafe.escape(printable(text, len(text)))),
        )
    )


def _used_share(result: OutputResult) -> float:
    """Return an output's largest difference as a share of the tolerance; infinity if unknown."""
    return float("inf") if result.used is None else result.used


def _rows_with_differences(rows: list[Row]) -> dict[str, list[Row]]:
    """Select the table rows of outputs that differ from the Keras model, by output name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.result.profile is not None and not row.result.profile.equal:
            found.setdefault(row.result.output, []).append(row)
    return found
