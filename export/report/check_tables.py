"""Make a report's tables of metrics, properties, sizes, latencies and effects of training mode."""

import dataclasses
from collections.abc import Callable

from keras_norm.export.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    group_by_item,
    number,
    number_columns,
)
from keras_norm.export.results.artifact_result import readable_size
from keras_norm.export.results.check_result import CheckResult
from keras_norm.export.results.gap_result import LayerStatistics

# The statuses of a tested property; an untested property has the status "not applicable".
TESTED = ("pass", "differs", "fail")
TIMES = "\N{MULTIPLICATION SIGN}"


def metrics_table(report: CheckResult) -> Table:
    """Make the table of metrics, such as the accuracy, of the Keras model and every artifact."""
    training = {m.output: m.training for m in report.gap.metrics}
    subjects = [(r.name, {m.output: m.value for m in r.metrics}) for r in report.results]
    subjects.insert(1, ("Keras model in training mode", training))
    own = [(metric.output, metric.name) for metric in report.keras.metrics]
    rows = (
        (name, *(f"{values[output]:.4g}" if output in values else "-" for output, _ in own))
        for name, values in subjects
        if values
    )
    columns = number_columns(*(f"{output}: {name}" for output, name in own))
    return Table("Metrics, on the labels", (Column("", "name"), *columns), tuple(rows))


def properties_by_status(report: CheckResult) -> Table:
    """Make a table with a row for each artifact: its properties that pass, differ and fail."""
    found = group_by_item(
        (r.name, tuple(", ".join(p.name for p in r.properties if p.status == s) for s in TESTED))
        for r in report.results
        if r.error is None
    )
    rows = ((Cell(names), *map(Cell, cells, TESTED)) for names, cells in found)
    columns = (Column("", "name", 28), *map(Column, TESTED))
    return Table("Properties", columns, tuple(rows))


def properties_by_name(report: CheckResult) -> Table:
    """Make the table of properties: a row for each property, and a column for each artifact.

    Artifacts with equal results share a column.
    """
    tested = group_by_item((r.name, r.properties) for r in report.results if r.error is None)
    rows = []
    for name in dict.fromkeys(p.name for r in report.results for p in r.properties):
        found = [next((p for p in properties if p.name == name), None) for _, properties in tested]
        # The text `detail` is often equal for all artifacts that pass. Show it once, in the first
        # cell of the row.
        detail = next((p.detail for p in found if p is not None and p.status == "pass"), "")
        cells = [
            Cell(p.status, p.status, "" if p.detail == detail else p.detail) if p else Cell("")
            for p in found
        ]
        rows.append((Cell(name, note=detail), *cells))
    columns = (Column(", ".join(names), "status") for names, _ in tested)
    return Table("Properties", (Column("property"), *columns), tuple(rows))


def costs_table(report: CheckResult) -> Table:
    """Make the table of sizes and latencies, also in relation to the Keras model."""
    known = [(result, result.cost) for result in report.results if result.cost is not None]
    batches = sorted({batch for _, cost in known for batch, _ in cost.latency})
    own = report.keras.cost
    weights, reference = (own.size, dict(own.latency)) if own else (None, {})
    rows: list[Row] = []
    for result, cost in known:
        is_file, times = result is not report.keras, dict(cost.latency)
        size = Cell("-" if cost.size is None else readable_size(cost.size))
        if is_file and cost.size and weights:
            note = f"{cost.size / weights:.2g} {TIMES} the weights"
            size = dataclasses.replace(size, note=note)
        cells = []
        for batch in batches:
            text, note = f"{times[batch]:.3g}" if batch in times else "-", ""
            if batch in times and cost.per_timestep:
                text += " a step"
            elif batch in times and batch in reference and is_file:
                note = f"{times[batch] / reference[batch]:.2g} {TIMES} Keras"
            cells.append(Cell(text, note=note))
        arena = readable_size(cost.arena) if cost.arena else "-"
        kinds = str(len(cost.ops) or "-")
        rows.append((result.name, result.precision, size, arena, *cells, kinds))
    arena = "" if any(cost.arena for _, cost in known) else "none"
    columns = (
        Column("artifact", "name", 28),
        Column("precision", view="page"),
        *number_columns("size"),
        Column("arena", "number", view=arena),
        *number_columns(*(f"ms, batch {batch}" for batch in batches)),
        Column("kinds of op", "number", view="text"),
    )
    return Table(
        "Sizes and latencies",
        columns,
        tuple(rows),
        "The size of the Keras model is the size of its weights. Milliseconds are the median of a "
        "few calls, with sequences of the data's length and the runtime's default number of "
        "threads. The transfer of arrays between the check and the runtime is not counted. A file "
        "that computes one timestep in each call has the milliseconds of one timestep. The arena "
        "is the memory that TensorFlow Lite Micro uses for the file.",
    )


def gap_table(report: CheckResult) -> Table:
    """Make the table of each output's difference between training mode and inference mode."""
    rows = ((x.output, *map(number, (x.worst, x.mean, x.scale))) for x in report.gap.outputs)
    columns = Column("output", "name"), *number_columns("worst abs", "mean abs", "largest output")
    return Table("Train/inference gap, dropout off", columns, tuple(rows))


def layers_table(
    report: CheckResult, draw: Callable[[LayerStatistics], str] = lambda layer: ""
) -> Table:
    """Make the table of the moving statistics of every batch normalization.

    Args:
        report: the report.
        draw: draws the distances of all timesteps, as a data URI.
    """
    rows = []
    for layer in report.gap.layers:
        style = "large" if layer.large else ""
        trained = f"{layer.trained_rows} of {len(layer.by_row)}" if len(layer.by_row) > 1 else "-"
        cells = (
            Cell("-" if layer.distance is None else f"{layer.distance:.3f}", style),
            Cell("-" if layer.factor is None else f"{layer.factor:.3g}", style),
            _updates(layer),
            trained,
            Cell("", image=draw(layer)),
        )
        rows.append((Cell(layer.path, note=layer.note), *cells))
    columns = (
        Column("batch normalization", "path", 38),
        *number_columns("means, in sd", width=6),
        *number_columns("variances, factor", "updates", "timesteps trained", width=10),
        Column("by timestep", view="page"),
    )
    return Table(
        "Moving statistics, compared with the statistics of the data",
        columns,
        tuple(rows),
        "The distance between the moving statistics and the statistics of these data. In the "
        'column "by timestep", the color of a timestep shows its distance: blue up to one '
        "standard deviation, orange and red above one standard deviation. A timestep has no color "
        "if the training sequences or the data were too short to reach it.",
    )


def _updates(layer: LayerStatistics) -> str:
    """Format the number of updates: "12"; "3-12" if it differs by timestep; or "unknown"."""
    if layer.updates is None:
        return "unknown"
    fewest, most = min(layer.updates), max(layer.updates)
    return str(most) if fewest == most else f"{fewest}-{most}"
