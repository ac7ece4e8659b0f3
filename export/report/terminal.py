"""Print a report as text tables that are readable at 80 columns."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from keras_norm.export.compare.quantization_tolerance import USEFUL
from keras_norm.export.report.tables import (
    TextTable,
    add_row,
    breakable,
    gap_table,
    group_by_item,
    metrics_table,
    new_table,
    number,
    plain,
    rounded_up,
)
from keras_norm.export.results.artifact_result import (
    ArtifactResult,
    readable_percent,
    readable_size,
)
from keras_norm.export.results.check_result import CheckResult, LayerStatistics
from keras_norm.export.results.output_comparison import (
    ErrorStatistics,
    OutputComparison,
    OutputResult,
)

# The statuses of a tested property; an untested property has the status "not applicable".
TESTED = ("pass", "differs", "fail")

# Colors of `CheckResult.status`.
STATUS_COLORS = {"pass": "green", "approximate": "bright_blue", "fail": "red"}
STYLES = {
    **{status: f"bold {color}" for status, color in STATUS_COLORS.items()},
    "pass": "green",
    "ok": "green",
    "large": "yellow",
    "differs": "yellow",
}

STATISTICS_TITLE = "Moving statistics, compared with the statistics of the data"
VALUES_TITLE = "Outputs, compared with the Keras model in inference mode"
QUANTIZED_TITLE = "Quantized files, compared with the Keras model on {} samples"
QUANTIZED_ABOUT = (
    '"Changed": predictions that differ from the Keras model\'s. "Rms / sd": root mean square of '
    "the error, as a share of the output's standard deviation"
)


def report_tables(report: CheckResult) -> Iterator[RenderableType]:
    """Yield the texts and tables of a report: verdict, failures, notes, advice, all tables.

    The tables are: values, quantized files, metrics, properties, sizes and latencies,
    train/inference gap, and moving statistics.

    Args:
        report: the report.

    Yields:
        Objects that rich can print.
    """
    first, *lines = report.headline
    yield Text("\n").join([plain(first, STYLES[report.status]), *map(plain, lines)])
    for failure in report.failures:
        detail = plain(f", {failure.check}: {failure.detail}")
        yield Padding(Text.assemble(plain(failure.subject, "bold"), detail), (0, 0, 0, 2))
    for note in report.notes:
        yield Padding(plain(f"Note: {note}"), (0, 0, 0, 2))
    yield ""
    if report.findings:
        yield Text(advice_title(report), style="bold")
    for finding in report.findings:
        subject, advice = plain(finding.subject, "bold"), plain(finding.advice, "cyan")
        line = Text.assemble(subject, plain(f": {finding.observation}. "), advice)
        yield Padding(line, (0, 0, 1, 2))
    yield from _values(report)
    if report.keras.metrics:
        yield _text_table(metrics_table(report))
    yield from _properties(report)
    yield _costs(report)
    yield _text_table(gap_table(report.gap))
    verdict = plain(report.gap.verdict, STYLES.get(report.gap.verdict, "yellow"))
    yield Text.assemble(verdict, plain(f": {report.gap.reason}"), "\n")
    if report.gap.layers:
        yield from _layers_gap(report)


def position(comparison: OutputComparison, case: str) -> str:
    """Describe the element that needs the largest atol: "sample 3, timestep 7 (batch 7)"."""
    if comparison.problem is not None:
        at = join_indices(comparison.where)
        example = f", for example at {at}" if at else ""
        return f"{comparison.problem} ({case}{example})"
    if comparison.max_abs == 0:
        return "equal everywhere"
    return f"{join_indices(comparison.where)} ({case})"


def join_indices(where: Iterable[tuple[str, int]]) -> str:
    """Format a position: "sample 3, timestep 7"."""
    return ", ".join(f"{axis} {index}" for axis, index in where)


def advice_title(report: CheckResult) -> str:
    """Return the title above the advice: a report without failures may have advice too."""
    return "Advice on the Keras model (no check failed)" if report.passed else "What to do"


def _values(report: CheckResult) -> Iterator[RenderableType]:
    exact = [result for result in report.artifacts if not result.quantized]
    quantized = [result for result in report.artifacts if result.quantized]
    if exact:
        names = ("worst\nabs", "worst\nrel", "needs\natol")
        yield _outputs_table(VALUES_TITLE, names, exact)
    if quantized:
        names = ("changed", "rms\n/ sd", "worst\nabs")
        yield _outputs_table(QUANTIZED_TITLE.format(report.samples), names, quantized)
        yield plain(QUANTIZED_ABOUT, "dim")
    yield Text.assemble(plain(tolerances(report), "dim"), "\n")


def _outputs_table(title: str, names: Sequence[str], results: Sequence[ArtifactResult]) -> Table:
    """Make a table with one row for each output: its verdict, three numbers and a position."""
    table = new_table(
        title,
        Column("", no_wrap=True, width=4),
        Column("artifact", overflow="fold", max_width=17),
        Column("output", overflow="fold", max_width=14),
        *(Column(name, justify="right") for name in names),
        Column("where", overflow="fold"),
    )
    for result in results:
        name = breakable(result.name, 16, "/_. ")
        if result.error is not None:
            add_row(table, Text("fail", STYLES["fail"]), name, "", "", "", "", result.error)
        for output in result.outputs:
            verdict = "pass" if output.passed else "fail"
            style = STYLES["approximate" if output.passed and result.quantized else verdict]
            cells = breakable(output.output, 14, "/_. "), *_numbers(output, result.quantized)
            add_row(table, Text(verdict, style), name, *cells)
    return table


def _numbers(output: OutputResult, quantized: bool) -> tuple[str, str, str, str]:
    """Return the cells of an output: three numbers, and where it differs most."""
    worst = output.comparisons[output.worst_case]
    where = position(worst, output.cases[output.worst_case])
    if not quantized:
        needed = rounded_up(worst.atol_needed)
        return number(output.max_abs), number(output.max_rel), needed, where
    errors = output.errors or ErrorStatistics()
    if output.passed and errors.worst is not None:
        where = join_indices(errors.worst.where)
    return *describe_errors(errors), where


def describe_errors(errors: ErrorStatistics) -> tuple[str, str, str]:
    """Format the error of a quantized file: "3 of 360", "6.1%", "2.4e-01"; "-" if not known."""
    changed = f"{errors.changed} of {errors.predictions}" if errors.predictions else "-"
    share = "-" if errors.rms_share is None else readable_percent(errors.rms_share)
    return changed, share, number(errors.max_abs)


def tolerances(report: CheckResult) -> str:
    """Describe each artifact's tolerance, and the model's numbers of layers and timesteps."""
    used = group_by_item((result.name, _describe_tolerance(result)) for result in report.artifacts)
    parts = (f"{allowed} ({', '.join(names)})" for names, allowed in used)
    steps = f", {report.timesteps} timesteps" if report.timesteps > 1 else ""
    return f"Tolerance: {'; '.join(parts)}; the model has {report.layers} layers in series{steps}"


def _text_table(content: TextTable) -> Table:
    first, *numbers = content.columns
    columns = (Column(plain(name), justify="right", overflow="fold") for name in numbers)
    table = new_table(content.title, Column(first, overflow="fold"), *columns)
    for row in content.rows:
        add_row(table, *row)
    return table


def _describe_tolerance(result: ArtifactResult) -> str:
    """Describe an artifact's tolerance: rtol and atol, or the limit of the RMS difference."""
    if result.by_rms:
        return (
            f"root mean square of the differences up to {USEFUL:g} of an output's standard "
            "deviation over the samples, for files in 8 bits"
        )
    atol = f"{result.share:.2g} of the largest output" if result.atol is None else result.atol
    return f"rtol {result.rtol:.2g}, atol {atol} for {result.precision}"


def _properties(report: CheckResult) -> Iterator[RenderableType]:
    table = new_table("Properties", Column("", overflow="fold", max_width=28), *TESTED)
    subjects = (report.keras, *(r for r in report.artifacts if r.error is None))
    found = group_by_item(
        (r.name, tuple(_names_with_status(r, status) for status in TESTED)) for r in subjects
    )
    for names, cells in found:
        words = (plain(text, STYLES[status]) for status, text in zip(TESTED, cells, strict=True))
        add_row(table, Text("\n").join(map(plain, names)), *words)
    yield table
    reasons = group_by_item(
        (p.name, p.detail) for r in subjects for p in r.properties if p.status == "not applicable"
    )
    for names, reason in reasons:
        yield plain(f"Not applicable: {', '.join(dict.fromkeys(names))}: {reason}", "dim")
    yield ""


def _names_with_status(result: ArtifactResult, status: str) -> str:
    """List the properties with a status such as "pass", as names joined by commas."""
    return ", ".join(p.name for p in result.properties if p.status == status)


def _costs(report: CheckResult) -> Table:
    table = new_table("Sizes, and milliseconds of one call")
    known = [(result.name, r) for result in (report.keras, *report.artifacts) if (r := result.cost)]
    batches = sorted({batch for _, cost in known for batch, _ in cost.latency})
    arenas = any(cost.arena for _, cost in known)
    columns = ("", "size", *["arena"] * arenas, *(f"batch {batch}" for batch in batches))
    for name in (*columns, "kinds of op"):
        table.add_column(name, justify="right" if name else "left", overflow="fold")
    for name, cost in known:
        latency = dict(cost.latency)
        unit = " a step" * cost.per_timestep
        times = (f"{latency[batch]:.3g}{unit}" if batch in latency else "-" for batch in batches)
        size = "-" if cost.size is None else readable_size(cost.size)
        arena = [readable_size(cost.arena) if cost.arena else "-"] * arenas
        add_row(table, name, size, *arena, *times, str(len(cost.ops) or "-"))
    return table


def _layers_gap(report: CheckResult) -> Iterator[RenderableType]:
    table = new_table(
        STATISTICS_TITLE,
        Column("batch normalization", overflow="fold"),
        Column("means, in sd", justify="right", width=6),
        Column("variances, factor", justify="right", width=10),
        Column("timesteps trained", justify="right", width=9),
        Column("updates", justify="right", width=7),
    )
    for layer in report.gap.layers:
        add_row(
            table,
            breakable(layer.path),
            "-" if layer.distance is None else f"{layer.distance:.3f}",
            "-" if layer.factor is None else f"{layer.factor:.3g}",
            f"{layer.trained_rows} of {len(layer.by_row)}" if len(layer.by_row) > 1 else "-",
            updates(layer),
            style=STYLES["large"] if layer.large else None,
        )
    yield table
    for paths, note in group_by_item(
        (layer.path, layer.note) for layer in report.gap.layers if layer.note
    ):
        yield plain(f"{note}: {', '.join(paths)}", "dim")


def updates(layer: LayerStatistics) -> str:
    """Format the number of updates of a layer's moving statistics.

    The result is "12"; "3-12" if the number differs between timesteps; or "unknown".
    """
    if layer.updates is None:
        return "unknown"
    fewest, most = min(layer.updates), max(layer.updates)
    return str(most) if fewest == most else f"{fewest}-{most}"
