"""Compare the outputs of each exported file with the Keras model, and make the check's results."""

import math
from collections.abc import Hashable, Iterable, Iterator

import numpy as np

from keras_norm.export.checks.data_measurements import ArtifactMeasurements, DataMeasurements
from keras_norm.export.checks.properties.property_registry import check_properties
from keras_norm.export.checks.subject import Subject
from keras_norm.export.compare.arrays import kind_of, to_float64
from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.output_differences import add_profiles, measure
from keras_norm.export.compare.quantization_tolerance import standard_deviations
from keras_norm.export.compare.tolerance import QUANTIZED, coarsest
from keras_norm.export.model.judge import Judge
from keras_norm.export.results.artifact_result import ArtifactResult
from keras_norm.export.results.output_comparison import (
    ErrorStatistics,
    Measurement,
    OutputComparison,
    OutputResult,
)


def make_result(subject: Subject, judge: Judge, measured: DataMeasurements) -> ArtifactResult:
    """Return the results of all tests of one exported file in one runtime, or of the Keras model.

    The result has the tested properties and the compared outputs. The outputs of the Keras model
    are not tested, because they are the reference. `check` adds the first layer that differs later.

    Args:
        subject: the Keras model or the artifact.
        judge: compares outputs with the Keras model.
        measured: the measurements of the Keras model over all data.
    """
    source, expected = subject.source, judge.expected
    tolerance = expected.tolerance(source.precision)
    properties = check_properties(subject, tolerance)
    precision = coarsest([source.precision, expected.precision])
    metrics = measured.keras.metrics
    outputs: tuple[OutputResult, ...] = ()
    if not subject.is_keras_model:
        metrics = subject.on_data.metrics if subject.cost else ()
        # `runner` is None if the file did not open, or if its run on the data raised an error.
        if subject.runner is not None:
            outputs = _compare_outputs(subject, judge, measured)
    return ArtifactResult(
        source.name,
        source.path,
        precision,
        tolerance.rtol,
        expected.atol,
        outputs,
        properties,
        None if subject.unsafe_ops else subject.error,
        tolerance.share,
        metrics,
        cost=subject.cost,
        quantized=precision in QUANTIZED and precision != expected.precision,
    )


def _compare_outputs(
    subject: Subject, judge: Judge, measured: DataMeasurements
) -> tuple[OutputResult, ...]:
    """Compare each output of a file with the Keras model, for the test inputs and for all data.

    For an 8-bit file, all test inputs with one number of timesteps are judged together. Test
    inputs with masked timesteps and test inputs without masked timesteps are separate groups.
    """
    on_data, precision = subject.on_data, subject.source.precision
    tolerance, whole = judge.expected.tolerance(precision), f"all {measured.samples} samples"
    # The key is the name of an output. A tuple is (name of the test inputs, group, measured
    # differences). Test inputs with the same group, such as (12 timesteps, masked), are judged
    # together.
    found: dict[str, list[tuple[str, Hashable, Measurement]]] = {}
    # Comparisons for test inputs with an extreme row, such as a row of zeros. The key is the name
    # of an output. A tuple is (name of the test inputs, comparison).
    on_edges: dict[str, list[tuple[str, OutputComparison]]] = {}
    profiles = dict(on_data.profiles)
    for case, actual in zip(judge.expected.all_cases, subject.outputs, strict=False):
        add_profiles(profiles, case.outputs, actual)
        if judge.expected.is_edge(case):
            for result in judge.compare(case, actual, precision):
                on_edges.setdefault(result.output, []).append((case.name, result))
            continue
        for m in measure(case.outputs, actual, tolerance.rtol, case.rows):
            found.setdefault(m.output, []).append((case.name, (case.length, case.masked), m))
    for m in on_data.outputs.values():
        found.setdefault(m.output, []).append((whole, whole, m))
    errors = _error_statistics(on_data, measured)
    results = []
    for name, own in found.items():
        groups: dict[Hashable, list[Measurement]] = {}
        for _, group, m in own:
            groups.setdefault(group, []).append(m)
        judged = {g: iter(tolerance.judge_together(together)) for g, together in groups.items()}
        compared = [(case, next(judged[group])) for case, group, _ in own]
        names, comparisons = zip(*compared, *on_edges.get(name, ()), strict=True)
        results.append(OutputResult(name, names, comparisons, profiles.get(name), errors.get(name)))
    return tuple(results)


def _error_statistics(
    on_data: ArtifactMeasurements, measured: DataMeasurements
) -> dict[str, ErrorStatistics]:
    """Return the error and the number of changed predictions of each output, over all data."""
    deviations = standard_deviations(measured.spreads)
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


def find_notes(
    expected: Expected, measured: DataMeasurements, results: Iterable[ArtifactResult]
) -> Iterator[str]:
    """Yield notes on differences due to rounding, and on outputs whose comparison may miss errors.

    Args:
        expected: the expected outputs of the Keras model.
        measured: the measurements of the Keras model over all data.
        results: the results of the artifacts.
    """
    for result in results:
        for case, c in result.comparisons:
            if c.rounding is not None:
                yield (
                    f"{result.name}: {case}: output {c.output!r} differs by {c.max_abs:.2g}. "
                    f"Rounding alone changes this output of the Keras model by "
                    f"{c.rounding:.2g}, so this is not a failure."
                )
    for name in measured.first_rows:
        if name not in measured.varying and measured.samples > 1:
            yield (
                f"output {name!r} is equal for all {measured.samples} samples, so its "
                "comparison may miss an error: give data for which this output varies"
            )
    yield from _find_small_units(expected)


def _find_small_units(expected: Expected) -> Iterator[str]:
    """Yield a note for each output in which one unit's values vary by less than the tolerance.

    A unit is an index on the last axis. An error of such a unit passes. A much larger unit in the
    output sets the tolerance: for example, a price beside a rate. The tolerance is the tolerance
    for float32, or for the Keras model's precision if it is coarser. The coarser tolerance of a
    quantized file is not used.
    """
    allowed = expected.tolerance("float32").atol
    for name, first in expected.cases[0].outputs.items():
        outputs = [case.outputs[name] for case in expected.cases]
        # If the size of the last axis differs between test inputs, that axis is a time axis.
        one_width = len({output.shape[-1:] for output in outputs}) == 1
        if kind_of(first) != "float" or first.ndim < 2 or not one_width:
            continue
        rows = [to_float64(output).reshape(-1, first.shape[-1]) for output in outputs]
        varies = np.ptp(np.concatenate(rows), axis=0)
        small = np.flatnonzero((varies > 0) & (varies < allowed[name]))
        if small.size:
            more = f" (and {small.size - 1} more)" if small.size > 1 else ""
            yield (
                f"output {name!r}: unit {small[0]}{more} varies by only {varies[small[0]]:.2g}, "
                f"but the tolerance is {allowed[name]:.2g}, because other units have larger "
                "values. So the check may not find wrong values of this unit. Give a smaller "
                "atol=, or make the unit a separate output"
            )
