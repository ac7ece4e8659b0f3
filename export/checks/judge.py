"""Compare recorded outputs with the outputs of the Keras model; no model runs here."""

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
    """Compare the outputs of artifacts with the outputs of the Keras model.

    Attributes:
        plan: the test inputs, and the outputs of the Keras model for them.
        measured: the measurements over all data.
        rtol: relative tolerance that the user gave, or None.
        atol: absolute tolerance that the user gave, or None.
    """

    plan: Plan
    measured: Partial
    rtol: float | None
    atol: float | None

    @property
    def timesteps(self) -> int:
        """Most timesteps that a recurrent layer ran; 1 without a recurrent layer."""
        return max(self.plan.timesteps, self.measured.timesteps)

    def share(self, precision: str) -> float:
        """Return the default tolerance of a precision, as a share of an output's largest value."""
        return default_share(precision, self.plan.layers, self.timesteps)

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance for values of this precision.

        The user's `rtol` and `atol` replace the defaults. The default `rtol` depends on the
        precision. The default `atol` is a share of an output's largest value over all data and test
        inputs.
        """
        default = default_tolerance(precision, self.plan.layers, self.timesteps, self._scales())
        return dataclasses.replace(
            default,
            rtol=default.rtol if self.rtol is None else self.rtol,
            atol=default.atol if self.atol is None else dict.fromkeys(default.atol, self.atol),
        )

    def require_comparison(self) -> None:
        """Raise ValueError if `atol` is so large that an output of zeros would pass."""
        floats = [n for n, y in self.plan.expected[0].items() if kind_of(y) == "float"]
        largest = max((self._scales()[name] for name in floats), default=0.0)
        if self.atol is not None and 0.0 < largest <= self.atol:
            raise ValueError(
                f"With atol={self.atol:.6g} outputs of zeros pass, as the largest output of the "
                f"Keras model is {largest:.6g}. Give a smaller atol."
            )

    def _scales(self) -> dict[str, float]:
        """Return the largest absolute value of every output, over all data and test inputs."""
        measured = dict(self.measured.scales)
        return {n: max(x, measured.get(n, 0.0)) for n, x in self.plan.scales.items()}

    def artifact(self, source: Source, answers: Answers) -> ArtifactResult:
        """Judge the outputs and the properties of one artifact in one runner.

        `check` adds the first layer that differs later.
        """
        precision = coarsest([source.precision, self.plan.precision])
        tolerance = self.tolerance(precision)
        seen = next(m for m in self.measured.artifacts if m.name == source.name)
        if source.precision == "float16":
            turned = 1.0 if self.measured.spreads else TURNED
            tolerance = dataclasses.replace(tolerance, turned=turned)
        # The outputs of an 8-bit file are judged by the exporter's rule; a repeated call is judged
        # by the usual tolerance.
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
        """Check that no output of the Keras model is NaN, over all data."""
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
        """Return a note for each output that is equal for all samples."""
        return tuple(
            f"output {name!r} is the same for all {self.measured.samples} samples: the comparison "
            "says little"
            for name, rows in self.measured.rows_by_output
            if len(rows) == 1 < self.measured.samples
        )

    def unseen(self) -> tuple[str, ...]:
        """Return a note for each output with a unit that varies by less than its tolerance.

        A much larger unit in the output sets the tolerance: for example, a price beside a rate. The
        tolerance is that of float32, or of the Keras model's precision if that is coarser. The
        coarser tolerance of a quantized file is not used.
        """
        allowed = self.tolerance(coarsest(["float32", self.plan.precision])).atol
        notes = []
        for name, first in self.plan.expected[0].items():
            answers = [answer[name] for answer in self.plan.expected]
            # If the last axis has the length of the sequence, it is a time axis and has no units.
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
        """Check that rows are independent, and that a repeated call gives equal outputs."""
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
        stream = self.plan.long_stream() if source.is_single_step else self.plan.stream()
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
        """Compare every output with the Keras model, for every test input and for all data."""
        found: dict[str, list[tuple[str, Measurement]]] = {}
        # For 8-bit files, test inputs of equal length are judged together: masked test inputs in
        # one group, unmasked test inputs in another.
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
        """Return the tolerance for a row of zeros, of one value or of extreme values.

        The default `atol` follows the largest output of this test input, if that is larger than in
        the data. Integer outputs may differ: an argmax of equal scores may be any index. Outputs of
        8-bit files must only be finite: a single sample may differ much.

        Args:
            rule: the tolerance for the samples of the data.
            tolerance: the tolerance for the precision of the file.
            expected: the outputs of the Keras model.
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
    """Judge the measurements of one output; for 8-bit files, each group gets one verdict.

    Args:
        rule: the tolerance.
        results: (name of the test input, measurement) pairs.
        groups: the group of a test input, by name; a name without an entry is judged alone.
        rules: the tolerance of test inputs that do not use `rule`, by name.

    Returns:
        An iterator over one comparison for each entry of `results`.
    """
    names = [groups.get(case, case) for case, _ in results]
    found: dict[Any, list[Measurement]] = {}
    for name, (_, measured) in zip(names, results, strict=True):
        found.setdefault(name, []).append(measured)
    judged = {
        name: iter(rules.get(name, rule).judge_together(group)) for name, group in found.items()
    }
    return (next(judged[name]) for name in names)
