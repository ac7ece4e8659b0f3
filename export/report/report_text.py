"""Put the texts and tables of a check in order, for a terminal and a notebook."""

from collections.abc import Iterator

from keras_norm.export.compare.quantization_tolerance import USEFUL
from keras_norm.export.report.check_tables import (
    costs_table,
    gap_table,
    layers_table,
    metrics_table,
    properties_by_status,
)
from keras_norm.export.report.output_tables import QUANTIZED_ABOUT, output_tables
from keras_norm.export.report.tables import BLANK, Paragraph, Table, group_by_item, paragraph
from keras_norm.export.results.artifact_result import ArtifactResult
from keras_norm.export.results.check_result import CheckResult


def report_items(report: CheckResult) -> Iterator[Paragraph | Table]:
    """Yield the texts and tables of a report: verdict, failures, notes, advice, all tables.

    Args:
        report: the report.
    """
    first, *lines = report.headline
    yield paragraph(first, report.status)
    yield from map(paragraph, lines)
    for failure in report.failures:
        detail = f", {failure.check}: {failure.detail}"
        yield Paragraph(((failure.subject, "bold"), (detail, "")), indent=True)
    for note in report.notes:
        yield Paragraph(((f"Note: {note}", ""),), indent=True)
    yield BLANK
    if report.findings:
        yield paragraph(advice_title(report), "bold")
    for finding in report.findings:
        observation = f": {finding.observation}. "
        parts = ((finding.subject, "bold"), (observation, ""), (finding.advice, "advice"))
        yield Paragraph(parts, indent=True, space=True)
    yield from output_tables(report)
    if any(artifact.quantized for artifact in report.artifacts):
        yield paragraph(QUANTIZED_ABOUT, "dim")
    yield paragraph(describe_tolerances(report), "dim", space=True)
    if report.keras.metrics:
        yield metrics_table(report)
    yield properties_by_status(report)
    for names, reason in group_by_item(
        (p.name, p.detail)
        for result in report.results
        if result.error is None
        for p in result.properties
        if p.status == "not applicable"
    ):
        yield paragraph(f"Not applicable: {', '.join(dict.fromkeys(names))}: {reason}", "dim")
    yield BLANK
    yield costs_table(report)
    yield gap_table(report)
    verdict = report.gap.verdict
    yield Paragraph(((verdict, verdict), (f": {report.gap.reason}", "")), space=True)
    if report.gap.layers:
        yield layers_table(report)
    for paths, note in group_by_item((n.path, n.note) for n in report.gap.layers if n.note):
        yield paragraph(f"{note}: {', '.join(paths)}", "dim")


def advice_title(report: CheckResult) -> str:
    """Return the title above the advice, which depends on whether the check passed."""
    return "Advice on the Keras model (no check failed)" if report.passed else "What to do"


def describe_tolerances(report: CheckResult) -> str:
    """Describe each artifact's tolerance, and the model's numbers of layers and timesteps."""
    used = group_by_item((result.name, _describe_tolerance(result)) for result in report.artifacts)
    parts = (f"{allowed} ({', '.join(names)})" for names, allowed in used)
    steps = f", {report.timesteps} timesteps" if report.timesteps > 1 else ""
    return f"Tolerance: {'; '.join(parts)}; the model has {report.layers} layers in series{steps}"


def _describe_tolerance(result: ArtifactResult) -> str:
    """Describe an artifact's tolerance: rtol and atol, or the limit of the RMS difference."""
    if any(comparison.rms is not None for _, comparison in result.comparisons):
        return (
            f"root mean square difference of at most {USEFUL:g} times the output's standard "
            "deviation over the samples, for files in 8 bits"
        )
    atol = f"{result.share:.2g} of the largest output" if result.atol is None else result.atol
    return f"rtol {result.rtol:.2g}, atol {atol} for {result.precision}"
