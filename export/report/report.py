"""What a check found: a tree of frozen results, and its forms as text, JSON and HTML."""

import dataclasses
import io
import json
import math
import os
import pathlib
import re
from typing import Any

import rich.console

from keras_norm.export.checking.cost import Cost
from keras_norm.export.checking.difference_profile import DifferenceProfile
from keras_norm.export.checking.first_difference import FirstDifference
from keras_norm.export.checking.metrics import Metric
from keras_norm.export.checking.properties import Property, difference
from keras_norm.export.checking.statistics import TrainInferenceGap
from keras_norm.export.compare import OutputComparison
from keras_norm.export.staging import replace_text

NOTEBOOK = '<pre style="line-height: 1.2">{code}</pre>'


@dataclasses.dataclass(frozen=True)
class OutputResult:
    """One output of one artefact, over all cases.

    Attributes:
        output: name of the output.
        cases: name of each case.
        comparisons: the comparison of each case; the sample in `where` counts in the user's data.
        profile: the spread of the differences over all cases, None where shapes differed.
    """

    output: str
    cases: tuple[str, ...]
    comparisons: tuple[OutputComparison, ...]
    profile: DifferenceProfile | None

    @property
    def passed(self) -> bool:
        """Whether every case passed."""
        return all(self.comparisons)

    @property
    def worst_case(self) -> int:
        """Index of the case that failed, or else of the one that needs the widest tolerance."""
        return max(range(len(self.cases)), key=lambda k: _badness(self.comparisons[k]))

    @property
    def used(self) -> float | None:
        """The largest share of its tolerance that any value uses, over all cases."""
        return _largest(c.used for c in self.comparisons)

    @property
    def max_abs(self) -> float | None:
        """Worst absolute difference over all cases."""
        return _largest(c.max_abs for c in self.comparisons)

    @property
    def max_rel(self) -> float | None:
        """Worst relative difference over all cases."""
        return _largest(c.max_rel for c in self.comparisons)


@dataclasses.dataclass(frozen=True)
class ArtifactResult:
    """One exported file, or the Keras model itself, in one runner.

    Attributes:
        name: how the report calls it.
        path: where it is; "" for the Keras model and for runners without a file.
        precision: the coarsest precision that its values pass through, which sets the tolerance.
        rtol: relative tolerance used.
        atol: absolute tolerance that was asked for; None for the default, a share of an output's
            largest value.
        outputs: comparison with the Keras model, output by output; empty for the model itself.
        properties: what else was tested.
        error: why it could not be run, or None.
        share: the default tolerance for this precision and model, as a share of each value and of
            an output's largest.
        metrics: on all samples, of every output with labels.
        first_difference: where its values leave the Keras model's; None where they do not.
        cost: bytes, milliseconds and operations; None where it could not be run.
    """

    name: str
    path: str
    precision: str
    rtol: float
    atol: float | None
    outputs: tuple[OutputResult, ...] = ()
    properties: tuple[Property, ...] = ()
    error: str | None = None
    share: float = 0.0
    metrics: tuple[Metric, ...] = ()
    first_difference: FirstDifference | None = None
    cost: Cost | None = None

    @property
    def atol_needed(self) -> float | None:
        """The smallest atol with which every output passes, with this rtol; None if none does."""
        compared = [c for output in self.outputs for c in output.comparisons]
        if not compared or any(c.problem is not None for c in compared):
            return None
        return max(c.atol_needed or 0.0 for c in compared)

    @property
    def passed(self) -> bool:
        """Whether it ran, equals the Keras model, and has every property that applies."""
        return (
            self.error is None
            and all(output.passed for output in self.outputs)
            and all(p.status != "fail" for p in self.properties)
        )

    def property(self, name: str) -> Property | None:
        """The property of that name, or None when it was not reached."""
        return next((p for p in self.properties if p.name == name), None)


@dataclasses.dataclass(frozen=True)
class Failure:
    """One reason why a check failed.

    Attributes:
        subject: the artefact's name, or "Keras model".
        check: "run", "values", "gap", or the name of a property.
        detail: what was seen, in one line.
    """

    subject: str
    check: str
    detail: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that a check measured, and what to do about it.

    Attributes:
        subject: the artefact, layer or output that it is about.
        seen: what was measured.
        advice: what to do.
    """

    subject: str
    seen: str
    advice: str


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    """What `check` found. Falsy when any check failed.

    Attributes:
        model: name of the Keras model.
        samples: number of samples in the data.
        keras: the Keras model's own properties.
        artifacts: one result for every artefact and runner.
        gap: training mode against inference mode.
        notes: what was left out, and why.
        versions: versions of the libraries that ran.
        findings: what to do about what was measured.
        layers: number of layers with weights in a row, which the default tolerance follows.
        timesteps: most timesteps that a recurrent layer ran, which it follows too; 1 without one.
    """

    model: str
    samples: int
    keras: ArtifactResult
    artifacts: tuple[ArtifactResult, ...]
    gap: TrainInferenceGap
    notes: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    layers: int = 0
    timesteps: int = 1

    def __bool__(self) -> bool:
        return self.passed

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return not self.failures

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every failed check, with its reason."""
        found = [f for result in (self.keras, *self.artifacts) for f in _failures(result)]
        if not self.gap.passed:
            seen = "was not measured" if self.gap.worst is None else f"is {self.gap.worst:.3g}"
            detail = f"the train/inference gap {seen}, max_gap is {self.gap.max_gap:.3g}"
            found.append(Failure("Keras model", "gap", detail))
        return tuple(found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not fail the check and should be known."""
        known = [] if self.gap.verdict == "ok" else [f"train/inference gap {self.gap.verdict}: "]
        return (*(text + self.gap.reason for text in known), *self.notes)

    @property
    def verdict(self) -> str:
        """One line: pass or fail, and what failed."""
        if self.passed:
            files = len({result.path or result.name for result in self.artifacts})
            equal = "1 artefact equals" if files == 1 else f"{files} artefacts equal"
            count = len(self.artifacts)
            runners = "1 runner" if count == 1 else f"{count} runners"
            worst = _largest(o.max_abs for r in self.artifacts for o in r.outputs)
            within = f" within {worst:.2g}" if worst else ""
            return f"PASS: {equal} the Keras model{within}, in {runners}, on {self.samples} samples"
        # A file that fails in two runners is named once.
        paths = {result.name: result.path for result in self.artifacts}
        names: dict[str, str] = {}
        for failure in self.failures:
            names.setdefault(paths.get(failure.subject) or failure.subject, failure.subject)
        return f"FAIL: {', '.join(names.values())}"

    def __repr__(self) -> str:
        return f"<Report of {self.model!r}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """The tables of `print`, for a notebook."""
        console = rich.console.Console(file=io.StringIO(), record=True, width=100)
        self.print(console)
        return console.export_html(inline_styles=True, code_format=NOTEBOOK)

    def to_json(self) -> str:
        """The whole report as JSON text; numbers that are not finite are null."""
        text = json.dumps(_plain(self), indent=2, allow_nan=False) + "\n"
        # Lists of numbers in one line; no text in JSON holds a line break.
        return re.sub(r'\[\n[^]["{}]*\]', lambda found: " ".join(found[0].split()), text)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs no other file.

        Args:
            path: file to write; an existing one is replaced, in one step.

        Raises:
            ImportError: jinja2 or pillow is missing.
        """
        from keras_norm.export.report.page import render

        replace_text(pathlib.Path(path), render(self))

    def print(self, console: rich.console.Console | None = None) -> None:
        """Print the report as tables that fit 80 columns.

        Args:
            console: where to; the standard output by default.
        """
        from keras_norm.export.report.terminal import report_tables

        console = console or rich.console.Console()
        for part in report_tables(self):
            console.print(part)


def _failures(result: ArtifactResult) -> list[Failure]:
    found = [] if result.error is None else [Failure(result.name, "run", result.error)]
    for output in result.outputs:
        if not output.passed:
            case, worst = output.cases[output.worst_case], output.comparisons[output.worst_case]
            detail = f"{case}: {difference(worst)}"
            if result.first_difference is not None and result.first_difference.layer is not None:
                detail += f"; the first layer that differs is {result.first_difference.layer!r}"
            found.append(Failure(result.name, "values", detail))
    failed = (p for p in result.properties if p.status == "fail")
    return found + [Failure(result.name, p.name, p.detail) for p in failed]


def _badness(result: OutputComparison) -> tuple[bool, bool, float, float]:
    return (
        result.problem is not None,
        not result.passed,
        result.atol_needed or 0.0,
        result.max_abs or 0.0,
    )


def _largest(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return next((v for v in known if math.isnan(v)), None) or max(known, default=None)


def _plain(node: Any) -> Any:
    """Dataclasses as dicts, with their verdicts; tuples as lists; NaN and infinity as None."""
    if dataclasses.is_dataclass(node):
        plain = {f.name: _plain(getattr(node, f.name)) for f in dataclasses.fields(node)}
        derived = (
            "verdict",
            "passed",
            "failures",
            "worst",
            "worst_case",
            "atol_needed",
            "max_abs",
            "max_rel",
            "large",
            "factor",
        )
        present = [name for name in derived if hasattr(node, name) and name not in plain]
        return {**plain, **{name: _plain(getattr(node, name)) for name in present}}
    if isinstance(node, tuple | list):
        return [_plain(item) for item in node]
    if isinstance(node, float):
        return float(node) if math.isfinite(node) else None
    return node
