"""What models answered, judged: no model runs here."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from keras_norm.export.checks import properties
from keras_norm.export.checks.artifacts import Source
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.run_artifacts import Answers
from keras_norm.export.compare.difference_profile import merged
from keras_norm.export.compare.element_differences import Arrays, kind_of, magnitude, wide
from keras_norm.export.compare.output_differences import measure
from keras_norm.export.compare.quantization_tolerance import useful
from keras_norm.export.compare.tolerance import (
    TURNED,
    Tolerance,
    coarsest,
    default_share,
    default_tolerance,
)
from keras_norm.export.results.artifact_result import ArtifactResult, Property
from keras_norm.export.results.measurements import Measured, Partial
from keras_norm.export.results.output_comparison import Measurement, OutputComparison, OutputResult


@dataclasses.dataclass(frozen=True)
class Judge:
    """Holds answers against the Keras model's.

    Attributes:
        plan: what was asked.
        measured: what all data gave.
        rtol: relative tolerance that the user asked for, or None.
        atol: absolute tolerance that the user asked for, or None.
    """

    plan: Plan
    measured: Partial
    rtol: float | None
    atol: float | None

    @property
    def timesteps(self) -> int:
        """Most timesteps that a recurrent layer ran; 1 without one."""
        return max(self.plan.timesteps, self.measured.timesteps)

    def share(self, precision: str) -> float:
        """The default tolerance of values of this precision, over all data."""
        return default_share(precision, self.plan.layers, self.timesteps)

    def tolerance(self, precision: str) -> Tolerance:
        """How far values of this precision may differ.

        By default rtol is the precision's own, and atol a share of an output's largest value in all
        data and cases, whatever that value is.
        """
        default = default_tolerance(precision, self.plan.layers, self.timesteps, self._scales())
        return dataclasses.replace(
            default,
            rtol=default.rtol if self.rtol is None else self.rtol,
            atol=default.atol if self.atol is None else dict.fromkeys(default.atol, self.atol),
        )

    def require_comparison(self) -> None:
        """Raise ValueError for an atol with which outputs of zeros pass."""
        floats = [n for n, y in self.plan.expected[0].items() if kind_of(y) == "float"]
        largest = max((self._scales()[name] for name in floats), default=0.0)
        if self.atol is not None and 0.0 < largest <= self.atol:
            raise ValueError(
                f"With atol={self.atol:.6g} outputs of zeros pass, as the largest output of the "
                f"Keras model is {largest:.6g}. Give a smaller atol."
            )

    def _scales(self) -> dict[str, float]:
        """The largest absolute value of every output, in all data and cases."""
        measured = dict(self.measured.scales)
        return {n: max(x, measured.get(n, 0.0)) for n, x in self.plan.scales.items()}

    def artifact(self, source: Source, answers: Answers) -> ArtifactResult:
        """All that is to be said of one artefact, but why its values differ."""
        precision = coarsest([source.precision, self.plan.precision])
        tolerance = self.tolerance(precision)
        seen = next(m for m in self.measured.artifacts if m.name == source.name)
        if source.precision == "float16":
            turned = 1.0 if self.measured.spreads else TURNED
            tolerance = dataclasses.replace(tolerance, turned=turned)
        # What a file in eight bits gives is judged as its exporter does, what it repeats as any.
        by_rms = precision == "int8" and self.rtol is None and self.atol is None
        rule = useful(self.measured.spreads) if by_rms else tolerance
        share = self.share(precision)
        error = None if answers.unsafe else seen.error or answers.error
        done = answers.ops is not None
        return ArtifactResult(
            source.name,
            source.path,
            precision,
            tolerance.rtol,
            self.atol,
            () if seen.error else self._values(seen, answers, tolerance, rule, share),
            self._properties(source, answers, tolerance, rule),
            error,
            share,
            tuple(tally.metric for tally in seen.tallies) if done else (),
            cost=answers.cost if done else None,
        )

    def no_nan(self) -> Property:
        """Whether the Keras model gives numbers for all data."""
        found = {}
        for name in self.plan.expected[0]:
            answers = [answer[name] for answer in self.plan.expected]
            nan = sum(int(np.isnan(answer).sum()) for answer in answers)
            found[name] = (sum(answer.size for answer in answers), nan)
        for seen in (m for artifact in self.measured.artifacts for m in artifact.outputs):
            if seen.nan_expected:
                found[seen.output] = (seen.count, seen.nan_expected)
        return properties.no_nan(found)

    def unvarying(self) -> tuple[str, ...]:
        """A note of each output that is the same for all samples."""
        return tuple(
            f"output {name!r} is the same for all {self.measured.samples} samples: the comparison "
            "says little"
            for name, rows in self.measured.rows_by_output
            if len(rows) == 1 < self.measured.samples
        )

    def unseen(self) -> tuple[str, ...]:
        """A note of each output of which a unit varies by less than it may be off.

        It stands beside a far larger one, as a rate beside a price. (In float32: of a rounded file
        less is expected.)
        """
        allowed = self.tolerance(coarsest(["float32", self.plan.precision])).atol
        notes = []
        for name, first in self.plan.expected[0].items():
            answers = [answer[name] for answer in self.plan.expected]
            # A last axis that is as long as the sequence has no units.
            one_width = len({answer.shape[-1:] for answer in answers}) == 1
            if kind_of(first) != "float" or first.ndim < 2 or not one_width:
                continue
            rows = [wide(answer).reshape(-1, first.shape[-1]) for answer in answers]
            varies = np.ptp(np.concatenate(rows), axis=0)
            small = np.flatnonzero((varies > 0) & (varies < allowed[name]))
            if small.size:
                more = f" and {small.size - 1} more" if small.size > 1 else ""
                notes.append(
                    f"output {name!r}: unit {small[0]}{more} varies by {varies[small[0]]:.2g}, and "
                    f"{allowed[name]:.2g} is allowed, for the sake of larger ones: give atol=, or "
                    "make it an output of its own"
                )
        return tuple(notes)

    def calls(self, answers: Answers, tolerance: Tolerance) -> tuple[Property, Property]:
        """Whether rows are independent, and a call gives the same again."""
        first, last = self.plan.cases[0], self.plan.cases[-1]
        before, after = answers.cases[-1], answers.again[1]
        return (
            properties.row_independence(self.plan.companions, answers.companions, tolerance),
            properties.again(last, first, before, after, tolerance),
        )

    def _properties(
        self, source: Source, answers: Answers, tolerance: Tolerance, rule: Tolerance
    ) -> tuple[Property, ...]:
        if answers.unsafe:
            return (properties.safe_ops(answers.unsafe),)
        if answers.ops is None:
            return ()
        cases, first = self.plan.cases, self.plan.cases[0]
        picked = [cases[k] for k in answers.picked]
        alone = [answers.cases[k] for k in answers.picked]
        before, after = answers.first, answers.again[0]
        streamed = () if answers.streamed is None else (self._streaming(source, answers, rule),)
        return (
            *self.calls(answers, tolerance),
            *streamed,
            properties.concurrency(picked, alone, answers.at_once, tolerance),
            properties.unchanged(answers.changed, 0)
            if answers.changed
            else properties.again(first, None, before, after, tolerance),
            properties.plain_ops(*answers.ops),
        )

    def _streaming(self, source: Source, answers: Answers, rule: Tolerance) -> Property:
        stream = self.plan.long_stream() if source.alone else self.plan.stream()
        actual = answers.streamed
        assert actual is not None
        expected, length = (
            (stream, 0) if isinstance(stream, str) else (stream.expected, stream.length)
        )
        return properties.streaming(expected, actual, length, rule)

    def _values(
        self,
        seen: Measured,
        answers: Answers,
        tolerance: Tolerance,
        rule: Tolerance,
        share: float,
    ) -> tuple[OutputResult, ...]:
        """Every case, and all data, against the Keras model's answers, output by output."""
        found: dict[str, list[tuple[str, Measurement]]] = {}
        # In eight bits all samples of a length are judged together, masked or not.
        alike = {case.name: (case.length, case.masked) for case in self.plan.cases}
        for case, expected, actual in zip(
            self.plan.cases, self.plan.expected, answers.cases, strict=False
        ):
            for result in measure(expected, actual, tolerance.rtol, case.rows):
                found.setdefault(result.output, []).append((case.name, result))
        for result in seen.outputs:
            if result.rtol != tolerance.rtol:
                raise ValueError(
                    f"The data were measured with rtol={result.rtol}: give the same to check. "
                    f"Received: rtol={tolerance.rtol}."
                )
            name = f"all {self.measured.samples} samples"
            found.setdefault(result.output, []).append((name, result))
        rules: dict[str, Tolerance] = {}
        for case, expected, actual in zip(
            self.plan.edges, self.plan.edges_expected, answers.edges, strict=False
        ):
            rules[case.name] = self._at_an_edge(rule, tolerance, expected, share)
            for result in measure(expected, actual, tolerance.rtol, case.rows):
                found.setdefault(result.output, []).append((case.name, result))
        return tuple(
            OutputResult(
                name,
                tuple(case for case, _ in results),
                tuple(_judged_in_groups(rule, results, alike, rules)),
                functools.reduce(merged, (m.profile for _, m in results)),
            )
            for name, results in found.items()
        )

    def _at_an_edge(
        self, rule: Tolerance, tolerance: Tolerance, expected: Arrays, share: float
    ) -> Tolerance:
        """How far values may differ for a row of zeros, of one value or of extremes.

        They have a size of their own. In eight bits they have to be finite, as one sample alone may
        be far off; and whole numbers may be others, as an argmax of equal scores is any.

        Args:
            rule: how the data's samples are judged.
            tolerance: how far the values of the file's precision may differ.
            expected: what the Keras model gives.
            share: the default absolute tolerance, as a share of an output's largest value.
        """
        if rule.limits is not None:
            return dataclasses.replace(rule, turned=1.0, limits={})
        atol = dict(tolerance.atol)
        if self.atol is None:
            atol = {n: max(a, share * magnitude(expected[n])) for n, a in atol.items()}
        return dataclasses.replace(tolerance, turned=1.0, atol=atol)


def _judged_in_groups(
    rule: Tolerance,
    results: list[tuple[str, Measurement]],
    groups: Mapping[str, Any],
    rules: Mapping[str, Tolerance],
) -> Iterator[OutputComparison]:
    """A comparison for each case, in eight bits of one verdict with those of its group.

    Args:
        rule: how far values may differ.
        results: a measurement for each case, by its name.
        groups: the group of a case that is not judged alone.
        rules: how far values of some of the cases may differ.
    """
    names = [groups.get(case, case) for case, _ in results]
    found: dict[Any, list[Measurement]] = {}
    for name, (_, measured) in zip(names, results, strict=True):
        found.setdefault(name, []).append(measured)
    judged = {
        name: iter(rules.get(name, rule).judge_together(group)) for name, group in found.items()
    }
    return (next(judged[name]) for name in names)
