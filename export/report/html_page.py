"""Render a report as one HTML page that needs no other file."""

from keras_norm.export.packages import require
from keras_norm.export.report.check_tables import (
    costs_table,
    gap_table,
    layers_table,
    metrics_table,
    properties_by_name,
)
from keras_norm.export.report.html_fragment import html_table
from keras_norm.export.report.output_tables import OutputRow, output_rows, output_tables
from keras_norm.export.report.report_text import advice_title, describe_tolerances
from keras_norm.export.report.tables import group_by_item, number
from keras_norm.export.results.artifact_result import readable_share
from keras_norm.export.results.check_result import CheckResult
from keras_norm_verify.printable import printable

# The page shows the images of the 4 outputs with the largest |difference| / tolerance. The images
# of the other outputs are collapsed: a click opens them.
OPEN_OUTPUTS = 4


def render(report: CheckResult) -> str:
    """Render the HTML page: verdict, tables and images; styles and images are embedded.

    Args:
        report: the report.

    Raises:
        ImportError: jinja2 or pillow is missing.
    """
    require("report")
    import jinja2
    import markupsafe

    from keras_norm.export.report.plots import difference_map, draw_distances

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("keras_norm.export.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    costs = ((r.name, r.cost.ops) for r in report.results if r.cost is not None and r.cost.ops)
    page: str = environment.get_template("report.html").render(
        report=report,
        failures=group_by_item(
            (f.subject, (f.meaning or f.check, f.detail)) for f in report.failures
        ),
        findings=group_by_item((f.subject, (f.observation, f.advice)) for f in report.findings),
        advice_title=advice_title(report),
        outputs=output_tables(report),
        tolerances=describe_tolerances(report),
        drawn=_rows_with_differences(output_rows(report)),
        open_outputs=OPEN_OUTPUTS,
        metrics=metrics_table(report),
        properties=properties_by_name(report),
        costs=costs_table(report),
        ops=group_by_item(costs),
        gap=gap_table(report),
        layers=layers_table(report, draw_distances),
        table=lambda table: markupsafe.Markup(html_table(table, "page")),
        difference_map=difference_map,
        number=number,
        percent=readable_share,
    )
    return page


def _printable(value: object) -> object:
    """Escape control characters in a text, such as a character that changes the writing direction.

    Every value of the template passes this function. HTML of the template itself does not change.
    """
    return printable(value, len(value)) if type(value) is str else value


def _rows_with_differences(rows: list[OutputRow]) -> dict[str, list[OutputRow]]:
    """Select the table rows of outputs that differ from the Keras model, by output name."""
    found: dict[str, list[OutputRow]] = {}
    for row in rows:
        if row.result.profile is not None and not row.result.profile.equal:
            found.setdefault(row.result.output, []).append(row)
    return found
