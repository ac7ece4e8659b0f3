"""Compare outputs of artifacts with the outputs of the Keras model, within tolerances."""

import dataclasses
import math
from collections.abc import Hashable, Iterator

import numpy as np

from keras_norm.export.checks.data_measurements import ArtifactMeasurements, DataMeasurements
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.properties.property import Tolerances
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.arrays import kind_of, magnitude, to_float64
from keras_norm.export.compare.output_differences import add_profiles, measure
from keras_norm.export.compare.quantization_tolerance import standard_deviations, useful_tolerance
from keras_norm.export.compare.tolerance import INTEGER_SHARE, QUANTIZED, Tolerance, coarsest
from keras_norm.export.model.rounding import Rounding
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult
from keras_norm.export.results.output_comparison import (
    ErrorStatistics,
    Measurement,
    OutputComparison,
    OutputResult,
)
from keras_norm.typing import Arrays


class Judge:
    """Compare the outputs of artifacts with the outputs of the Keras model.

    Args:
        plan: the Keras model with its expected outputs.
        measured: the measurements over all data.
        rtol: relative tolerance that the user gave, or None.
        atol: absolute tolerance that the user gave, or None.

    Attributes:
        expected: the expected outputs. Their scales and timesteps include all samples of the data.
        rounding: the rounding errors of the Keras model.

    Raises:
        ValueError: `atol` is so large that an output of zeros would pass.
    """

    def __init__(
        self, plan: Plan, measured: DataMeasurements, rtol: float | None, atol: float | None
    ) -> None:
        self.plan, self.measured, self.rtol, self.atol = plan, measured, rtol, atol
        on_data, expected = measured.scales, plan.expected
        self.expected = dataclasses.replace(
            expected,
            timesteps=max(expected.timesteps, measured.timesteps),
            scales={n: max(x, on_data.get(n, 0.0)) for n, x in expected.scales.items()},
        )
        self.rounding = Rounding(plan.model)
        self._require_comparison()

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance for outputs of a precision, such as "float32" or "int8".

        The user's `rtol` and `atol` replace the defaults (`Expected.tolerance`).
        """
        default = self.expected.tolerance(precision)
        return dataclasses.replace(
            default,
            rtol=default.rtol if self.rtol is None else self.rtol,
            atol=default.atol if self.atol is None else dict.fromkeys(default.atol, self.atol),
        )

    def _require_comparison(self) -> None:
        outputs = self.expected.cases[0].outputs
        floats = [name for name, y in outputs.items() if kind_of(y) == "float"]
        largest = max((self.expected.scales[name] for name in floats), default=0.0)
        if self.atol is not None and 0.0 < largest <= self.atol:
            raise ValueError(
                f"With atol={self.atol:.6g} an output of zeros passes, because the largest output "
                f"of the Keras model is {largest:.6g}. Give a smaller atol."
            )

    def tolerances(self, subject: Subject) -> Tolerances:
        """Return the tolerances for comparing the outputs of the Keras model or of an artifact."""
        source_precision = subject.source.precision
        precision = coarsest([source_precision, self.expected.precision])
        tolerance, share = self.tolerance(precision), self.expected.share(precision)
        if subject.is_keras_model:
            return Tolerances(tolerance, tolerance, share)
        if source_precision == "float16":
            integers = 1.0 if self.measured.spreads else INTEGER_SHARE
            tolerance = dataclasses.replace(tolerance, integer_share=integers)
        # The root mean square of the differences decides whether the outputs of an 8-bit file are
        # near the outputs of the Keras model. The exporter uses this rule too. If the check calls
        # the 8-bit file twice, it compares the two outputs by rtol and atol.
        by_rms = precision == "int8" and self.rtol is None and self.atol is None
        values = useful_tolerance(self.measured.spreads) if by_rms else tolerance
        return Tolerances(tolerance, values, share)

    def result(self, subject: Subject, properties: tuple[PropertyResult, ...]) -> ArtifactResult:
        """Judge the outputs of an artifact in one runner.

        The outputs of the Keras model are not tested, because they are the reference. `check` adds
        the first layer that differs later.

        Args:
            subject: the Keras model or the artifact.
            properties: the results of its properties.
        """
        source, tolerances = subject.source, self.tolerances(subject)
        precision = coarsest([source.precision, self.expected.precision])
        metrics, error = self.measured.keras.metrics, None
        outputs: tuple[OutputResult, ...] = ()
        if not subject.is_keras_model:
            on_data = self.measured.artifacts[source.name]
            error = None if subject.unsafe_ops else on_data.error or subject.error
            metrics = on_data.metrics if subject.cost else ()
            if not on_data.error:
                outputs = self._compare_outputs(on_data, subject, tolerances)
        return ArtifactResult(
            source.name,
            source.path,
            precision,
            tolerances.calls.rtol,
            self.atol,
            outputs,
            properties,
            error,
            tolerances.share,
            metrics,
            cost=subject.cost,
            quantized=precision in QUANTIZED and precision != self.expected.precision,
        )

    def make_notes(self) -> tuple[str, ...]:
        """Return notes on the outputs whose comparison may miss an error of a file."""
        return *self._find_constant_outputs(), *self._find_small_units()

    def _find_constant_outputs(self) -> Iterator[str]:
        """Yield a note for each output that is equal for all samples."""
        for name in self.measured.first_rows:
            if name not in self.measured.varying and self.measured.samples > 1:
                yield (
                    f"output {name!r} is equal for all {self.measured.samples} samples, so its "
                    "comparison may miss an error: give data for which this output varies"
                )

    def _find_small_units(self) -> Iterator[str]:
        """Yield a note for each output with a unit (last axis) that varies less than the tolerance.

        An error of such a unit passes. A much larger unit in the output sets the tolerance: for
        example, a price beside a rate. The tolerance is the tolerance for float32, or for the Keras
        model's precision if it is coarser. The coarser tolerance of a quantized file is not used.
        """
        allowed = self.tolerance("float32").atol
        for name, first in self.expected.cases[0].outputs.items():
            outputs = [case.outputs[name] for case in self.expected.cases]
            # If the last axis has the length of the sequence, it is a time axis and has no units.
            one_width = len({output.shape[-1:] for output in outputs}) == 1
            if kind_of(first) != "float" or first.ndim < 2 or not one_width:
                continue
            rows = [to_float64(output).reshape(-1, first.shape[-1]) for output in outputs]
            varies = np.ptp(np.concatenate(rows), axis=0)
            small = np.flatnonzero((varies > 0) & (varies < allowed[name]))
            if small.size:
                more = f" and {small.size - 1} more" if small.size > 1 else ""
                yield (
                    f"output {name!r}: unit {small[0]}{more} varies by {varies[small[0]]:.2g}, "
                    f"which is less than the tolerance {allowed[name]:.2g}, because other units "
                    "are larger: give atol=, or make the unit a separate output"
                )

    def _compare_outputs(
        self, on_data: ArtifactMeasurements, subject: Subject, tolerances: Tolerances
    ) -> tuple[OutputResult, ...]:
        """Compare every output with the Keras model, for every test input and for all data.

        For an 8-bit file, all test inputs with one number of timesteps are judged together. Test
        inputs with masked timesteps and test inputs without masked timesteps are separate groups.
        """
        rtol, whole = tolerances.calls.rtol, f"all {self.measured.samples} samples"
        cases, edges = self.expected.cases, self.expected.edges
        # Name of the test inputs, their group and a measurement, for each output.
        found: dict[str, list[tuple[str, Hashable, Measurement]]] = {}
        on_edges: dict[str, list[tuple[str, OutputComparison]]] = {}
        profiles = dict(on_data.profiles)
        for case, actual in zip((*cases, *edges), subject.outputs, strict=False):
            add_profiles(profiles, case.outputs, actual)
        for case, actual in zip(cases, subject.outputs, strict=False):
            for m in measure(case.outputs, actual, rtol, case.rows):
                found.setdefault(m.output, []).append((case.name, (case.length, case.masked), m))
        for m in on_data.outputs.values():
            found.setdefault(m.output, []).append((whole, whole, m))
        for case, actual in zip(edges, subject.outputs[len(cases) :], strict=False):
            tolerance = self._edge_tolerance(tolerances, case.outputs)
            for result in tolerance.compare(case.outputs, actual, case.rows):
                if self.rtol is None and self.atol is None:
                    result = self.rounding.excuse(case, result)
                on_edges.setdefault(result.output, []).append((case.name, result))
        errors = self._error_statistics(on_data)
        results = []
        for name, measured in found.items():
            groups: dict[Hashable, list[Measurement]] = {}
            for _, group, m in measured:
                groups.setdefault(group, []).append(m)
            judged = {g: iter(tolerances.values.judge_together(own)) for g, own in groups.items()}
            compared = [(case, next(judged[group])) for case, group, m in measured]
            names, comparisons = zip(*compared, *on_edges.get(name, ()), strict=True)
            profile, error = profiles.get(name), errors.get(name)
            results.append(OutputResult(name, names, comparisons, profile, error))
        return tuple(results)

    def _error_statistics(self, on_data: ArtifactMeasurements) -> dict[str, ErrorStatistics]:
        """Return the error of each output over all data, and the predictions that changed."""
        deviations = standard_deviations(self.measured.spreads)
        counts = {
            name: (changes.result().predictions, changes.result().changed)
            for name, changes in on_data.changes.items()
            if changes.are_classes
        }
        found = {}
        for m in on_data.outputs.values():
            predictions = counts.get(m.output, (0, 0))
            if m.output in deviations and m.widest is not None:
                rms, deviation = math.sqrt(m.squared / m.count), deviations[m.output]
                found[m.output] = ErrorStatistics(*predictions, rms, deviation, m.widest)
            elif predictions[0]:
                found[m.output] = ErrorStatistics(*predictions)
        return found

    def _edge_tolerance(self, tolerances: Tolerances, expected: Arrays) -> Tolerance:
        """Return the tolerance for an edge case: test inputs with a row of zeros or extreme values.

        The default `atol` follows the largest output of this test input, if that is larger than in
        the data. Integer outputs may differ: an argmax of equal scores may be any index. Outputs of
        8-bit files must only be finite: a single sample may differ much.
        """
        if tolerances.values.limits is not None:
            rtol = tolerances.calls.rtol
            return dataclasses.replace(tolerances.values, rtol=rtol, integer_share=1.0, limits={})
        atol = dict(tolerances.calls.atol)
        if self.atol is None:
            share = tolerances.share
            atol = {n: max(a, share * magnitude(expected[n])) for n, a in atol.items()}
        return dataclasses.replace(tolerances.calls, integer_share=1.0, atol=atol)


def rounding_notes(results: tuple[ArtifactResult, ...]) -> tuple[str, ...]:
    """Return a note on each difference for an edge case that was accepted because of rounding."""
    return tuple(
        f"{result.name}: {case}: output {c.output!r} differs by {c.max_abs:.2g}. Rounding alone "
        f"changes this output of the Keras model by {c.rounding:.2g}, so this is not a failure."
        for result in results
        for output in result.outputs
        for case, c in zip(output.cases, output.comparisons, strict=True)
        if c.rounding is not None
    )
