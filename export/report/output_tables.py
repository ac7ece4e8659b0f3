"""Make the tables of the outputs of all artifacts, compared with the Keras model."""

import dataclasses
import math

from keras_norm.export.report.tables import (
    Cell,
    Column,
    Row,
    Table,
    group_by_item,
    number,
    number_columns,
    rounded_up,
)
from keras_norm.export.results.artifact_result import readable_share
from keras_norm.export.results.check_result import CheckResult
from keras_norm.export.results.output_comparison import (
    ErrorStatistics,
    OutputComparison,
    OutputResult,
    describe_position,
)

QUANTIZED_ABOUT = (
    '"Changed": predictions that differ from the Keras model\'s. "Rms / sd": root mean square of '
    "the error, as a share of the output's standard deviation"
)
FIRST = Column("", "word", 4), Column("artifact", "name", 17), Column("output", "output", 14)
EXACT = (
    *FIRST,
    Column("tolerance used", "used", view="page"),
    *number_columns("needs atol", "worst abs", "worst rel", width=7),
    Column("where"),
)
QUANTIZED = (
    *FIRST,
    *number_columns("changed"),
    *number_columns("rms / sd", width=6),
    Column("limit used", "used", view="page"),
    *number_columns("worst abs", width=7),
    Column("where"),
)


@dataclasses.dataclass(frozen=True)
class OutputRow:
    """One row of a table of outputs: for one output, or for all outputs without a difference.

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
    def cells(self) -> Row:
        """The cells of this row: verdict, artifacts, outputs, numbers and position."""
        result, worst = self.result, self.worst
        verdict = "pass" if result.passed else "fail"
        style = "approximate" if result.passed and self.quantized else verdict
        used = Cell(readable_share(result.used), used=result.used)
        where = _position(worst, result.cases[result.worst_case])
        first = Cell(verdict, style), Cell(self.names), Cell(self.outputs)
        if not self.quantized:
            values = number(result.max_abs), number(result.max_rel)
            return *first, used, rounded_up(worst.atol_needed), *values, where
        errors = result.errors or ErrorStatistics()
        if result.passed and errors.worst is not None:
            where = describe_position(errors.worst.where)
        changed = f"{errors.changed} of {errors.predictions}" if errors.predictions else "-"
        share = readable_share(errors.rms_share)
        return *first, changed, share, used, number(errors.max_abs), where


def output_rows(report: CheckResult) -> list[OutputRow]:
    """Make the rows of the tables of outputs: failures first, then the largest differences.

    The differences are relative to the tolerance. Artifacts with equal results share a row. All
    outputs without any difference share one row too.
    """
    equal: dict[tuple[tuple[str, ...], bool], list[OutputResult]] = {}
    rows = []
    for names, (result, quantized) in group_by_item(
        (a.name, (output, a.quantized)) for a in report.artifacts for output in a.outputs
    ):
        if result.passed and result.max_abs == 0:
            equal.setdefault((names, quantized), []).append(result)
        else:
            rows.append(OutputRow(names, (result.output,), result, quantized))

    def rank(row: OutputRow) -> tuple[bool, float]:
        # `used` is |difference| / tolerance. It is None for an output that could not be compared:
        # show such an output first.
        used = row.result.used
        return not row.result.passed, math.inf if used is None else used

    rows.sort(key=rank, reverse=True)
    return rows + [
        OutputRow(names, tuple(result.output for result in results), results[0], quantized)
        for (names, quantized), results in equal.items()
    ]


def output_tables(report: CheckResult) -> list[Table]:
    """Make two tables of outputs: files that must equal the model, and quantized files."""
    rows = output_rows(report)
    exact, quantized = (
        (
            *(
                (Cell("fail", "fail"), artifact.name, artifact.error)
                for artifact in report.artifacts
                if artifact.error is not None and artifact.quantized == kind
            ),
            *(row.cells for row in rows if row.quantized == kind),
        )
        for kind in (False, True)
    )
    tables = (
        Table(
            "Outputs, compared with the Keras model in inference mode",
            EXACT,
            exact,
            '"Tolerance used" is the worst |difference| / (atol + rtol |expected|), on a '
            'logarithmic bar with the limit in the middle. "Needs atol" is the smallest absolute '
            "tolerance that passes with this rtol.",
        ),
        Table(
            f"Quantized files, compared with the Keras model on {report.samples} samples",
            QUANTIZED,
            quantized,
            f'{QUANTIZED_ABOUT}. "Limit used" is the largest error / limit over all test inputs, '
            "on a logarithmic bar with the limit in the middle.",
        ),
    )
    return [table for table in tables if table.rows]


def _position(comparison: OutputComparison, case: str) -> str:
    """Describe the element that needs the largest atol: "sample 3, timestep 7 (batch 7)"."""
    if comparison.problem is not None:
        at = describe_position(comparison.where)
        example = f", for example at {at}" if at else ""
        return f"{comparison.problem} ({case}{example})"
    if comparison.max_abs == 0:
        return "equal everywhere"
    return f"{describe_position(comparison.where)} ({case})"
