"""Compare recorded outputs with the outputs of the Keras model, by the tolerances of a check."""

import dataclasses
import functools
import math
from collections.abc import Hashable, Iterator, Mapping

import numpy as np

from keras_norm.export.checks.data_measurements import ArtifactMeasurements, DataMeasurements
from keras_norm.export.checks.plan import Plan
from keras_norm.export.checks.properties.property import Tolerances
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.arrays import kind_of, magnitude, to_float64
from keras_norm.export.compare.output_differences import measure, merge_profiles
from keras_norm.export.compare.quantization_tolerance import standard_deviations, useful_tolerance
from keras_norm.export.compare.tolerance import (
    INTEGER_SHARE,
    QUANTIZED,
    Tolerance,
    coarsest,
    default_share,
    default_tolerance,
)
from keras_norm.export.results.artifact_result import ArtifactResult, PropertyResult
from keras_norm.export.results.output_comparison import (
    ErrorStatistics,
    Measurement,
    OutputComparison,
    OutputResult,
)
from keras_norm.typing import Arrays


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
    measured: DataMeasurements
    rtol: float | None
    atol: float | None

    @property
    def timesteps(self) -> int:
        """Largest number of timesteps that a recurrent layer ran; 1 without a recurrent layer."""
        return max(self.plan.timesteps, self.measured.timesteps)

    def share(self, precision: str) -> float:
        """Return the default tolerance of a precision, relative to an output's largest value."""
        return default_share(precision, self.plan.layers, self.timesteps)

    def tolerance(self, precision: str) -> Tolerance:
        """Return the tolerance for outputs of a precision, such as "float32" or "int8".

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
                f"With atol={self.atol:.6g} an output of zeros passes, because the largest output "
                f"of the Keras model is {largest:.6g}. Give a smaller atol."
            )

    def _scales(self) -> dict[str, float]:
        """Return the largest absolute value of every output, over all data and test inputs."""
        measured = self.measured.scales
        return {n: max(x, measured.get(n, 0.0)) for n, x in self.plan.scales.items()}

    def tolerances(self, subject: Subject) -> Tolerances:
        """Return the tolerances for comparing the outputs of the Keras model or of an artifact."""
        source_precision = subject.source.precision
        precision = coarsest([source_precision, self.plan.precision])
        tolerance = self.tolerance(precision)
        if subject.is_keras_model:
            return Tolerances(tolerance, tolerance, self.share(precision))
        if source_precision == "float16":
            share = 1.0 if self.measured.spreads else INTEGER_SHARE
            tolerance = dataclasses.replace(tolerance, integer_share=share)
        # The root mean square of the differences decides whether the outputs of an 8-bit file are
        # near the outputs of the Keras model. The exporter uses this rule too. If the check calls
        # the 8-bit file twice, it compares the two outputs by rtol and atol.
        by_rms = precision == "int8" and self.rtol is None and self.atol is None
        values = useful_tolerance(self.measured.spreads) if by_rms else tolerance
        return Tolerances(tolerance, values, self.share(precision))

    def keras_model(
        self, subject: Subject, properties: tuple[PropertyResult, ...]
    ) -> ArtifactResult:
        """Return the result of the Keras model. Its outputs are not tested: they are the reference.

        Args:
            subject: the Keras model.
            properties: the results of its properties.
        """
        return ArtifactResult(
            subject.source.name,
            "",
            self.plan.precision,
            self.tolerance(self.plan.precision).rtol,
            self.atol,
            properties=properties,
            share=self.share(self.plan.precision),
            metrics=self.measured.keras.metrics,
            cost=subject.cost,
        )

    def artifact(self, subject: Subject, properties: tuple[PropertyResult, ...]) -> ArtifactResult:
        """Judge the outputs of one artifact in one runner.

        `check` adds the first layer that differs later.

        Args:
            subject: the artifact.
            properties: the results of its properties.
        """
        source = subject.source
        precision = coarsest([source.precision, self.plan.precision])
        tolerances = self.tolerances(subject)
        on_data = self.measured.artifacts[source.name]
        return ArtifactResult(
            source.name,
            source.path,
            precision,
            tolerances.calls.rtol,
            self.atol,
            () if on_data.error else self._compare_outputs(on_data, subject, tolerances),
            properties,
            None if subject.unsafe_ops else on_data.error or subject.error,
            tolerances.share,
            on_data.metrics if subject.cost else (),
            cost=subject.cost,
            quantized=precision in QUANTIZED and precision != self.plan.precision,
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
        example, a price beside a rate.
        This method uses the tolerance of float32, or of the Keras model's precision if that is
        coarser. It does not use the coarser tolerance of a quantized file.
        """
        allowed = self.tolerance(coarsest(["float32", self.plan.precision])).atol
        for name, first in self.plan.expected[0].items():
            outputs = [expected[name] for expected in self.plan.expected]
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
        """Compare every output with the Keras model, for every test input and for all data."""
        rtol = tolerances.calls.rtol
        found: dict[str, list[tuple[str, Measurement]]] = {}
        # For an 8-bit file, all test inputs with one number of timesteps are judged together. Test
        # inputs with masked timesteps and test inputs without masked timesteps are separate groups.
        groups = {case.name: (case.length, case.masked) for case in self.plan.cases}
        for case, expected, actual in zip(
            self.plan.cases, self.plan.expected, subject.cases, strict=False
        ):
            for result in measure(expected, actual, rtol, case.rows):
                found.setdefault(result.output, []).append((case.name, result))
        for result in on_data.outputs.values():
            name = f"all {self.measured.samples} samples"
            found.setdefault(result.output, []).append((name, result))
        edge_tolerances: dict[str, Tolerance] = {}
        for case, expected, actual in zip(
            self.plan.edges, self.plan.edges_expected, subject.edges, strict=False
        ):
            edge_tolerances[case.name] = self._edge_tolerance(tolerances, expected)
            for result in measure(expected, actual, rtol, case.rows):
                found.setdefault(result.output, []).append((case.name, result))
        errors = self._error_statistics(on_data)
        return tuple(
            OutputResult(
                name,
                tuple(case for case, _ in results),
                tuple(_judge_groups(tolerances.values, results, groups, edge_tolerances)),
                functools.reduce(merge_profiles, (m.profile for _, m in results)),
                errors.get(name),
            )
            for name, results in found.items()
        )

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

        Args:
            tolerances: the tolerances for the artifact.
            expected: the outputs of the Keras model.
        """
        if tolerances.values.limits is not None:
            return dataclasses.replace(tolerances.values, integer_share=1.0, limits={})
        atol = dict(tolerances.calls.atol)
        if self.atol is None:
            share = tolerances.share
            atol = {n: max(a, share * magnitude(expected[n])) for n, a in atol.items()}
        return dataclasses.replace(tolerances.calls, integer_share=1.0, atol=atol)


def _judge_groups(
    tolerance: Tolerance,
    results: list[tuple[str, Measurement]],
    groups: Mapping[str, Hashable],
    edge_tolerances: Mapping[str, Tolerance],
) -> Iterator[OutputComparison]:
    """Compare the measured differences of one output with the tolerances.

    For an 8-bit file, the test inputs of a group are judged together.

    Args:
        tolerance: the tolerance.
        results: (name of the test input, measurement) pairs.
        groups: the group of a test input, by name; a name without an entry is judged alone.
        edge_tolerances: the tolerance of test inputs that do not use `tolerance`, by name.

    Returns:
        An iterator over one comparison for each entry of `results`.
    """
    names = [groups.get(case, case) for case, _ in results]
    members: dict[Hashable, list[Measurement]] = {}
    for name, (_, measured) in zip(names, results, strict=True):
        members.setdefault(name, []).append(measured)
    judged = {
        name: iter(edge_tolerances.get(str(name), tolerance).judge_together(group))
        for name, group in members.items()
    }
    return (next(judged[name]) for name in names)
