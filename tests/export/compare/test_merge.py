"""Results of parts of the data merge to the result of all data, in any order."""

import itertools
import json

import numpy as np
import pytest

from keras_norm.export.compare.merge import merge, merge_results
from keras_norm.export.compare.metrics import tally
from keras_norm.export.compare.output_differences import judge, measure
from keras_norm.export.compare.quantization_tolerance import spreads
from keras_norm.export.results.json_dataclass import to_plain
from keras_norm.export.results.measurements import (
    ArtifactMeasurements,
    BatchStatistics,
    DataMeasurements,
    GapMeasurements,
    ModeDifference,
)

RTOL = 0.01


def arrays(seed, kind="close"):
    """Expected and actual outputs of 60 sequences."""
    rng = np.random.default_rng(seed)
    expected = rng.normal(size=(60, 5, 3)) * np.exp(rng.normal(size=(60, 1, 1)))
    actual = expected + 1e-3 * rng.normal(size=expected.shape)
    if kind == "proportional":  # what a wrong scale gives: many elements need nearly the same
        actual = expected * 1.125
    if kind == "equal errors":
        actual = expected.round(1) + 0.25
        expected = expected.round(1)
    if kind == "not finite":
        actual[17, 2, 1], actual[41, 0, 0] = np.nan, np.inf
    return expected, actual


def measured(expected, actual, rows):
    (found,) = measure({"y": expected[rows]}, {"y": actual[rows]}, RTOL, rows.tolist())
    return found


def parts_of(rng, count=60):
    cuts = np.sort(rng.choice(np.arange(1, count), size=6, replace=False))
    parts = np.split(np.arange(count), cuts)
    rng.shuffle(cuts)
    return [parts[k] for k in rng.permutation(len(parts))]


def in_any_tree(items, add, rng):
    """Merge pairs in a random order, as a pipeline runner does."""
    items = list(items)
    while len(items) > 1:
        one, other = (items.pop(int(rng.integers(len(items)))) for _ in range(2))
        items.append(add(one, other))
    return items[0]


def sums(plain):
    """Remove sums of floats from a result: their last digits depend on the order."""
    if isinstance(plain, list):
        return [total for item in plain for total in sums(item)]
    if not isinstance(plain, dict):
        return []
    found = [plain.pop(name) for name in ("squared", "squares") if name in plain]
    numbers = [float(total) for total in found]  # "Infinity" and "NaN" are words
    return numbers + [total for item in plain.values() for total in sums(item)]


@pytest.mark.parametrize("kind", ["close", "proportional", "equal errors", "not finite"])
@pytest.mark.parametrize("seed", range(5))
def test_merged_measurements_equal_the_measurement_of_all_data(seed, kind):
    rng = np.random.default_rng(seed)
    expected, actual = arrays(seed, kind)
    whole = measured(expected, actual, np.arange(60))
    parts = [measured(expected, actual, rows) for rows in parts_of(rng)]
    found, wanted = to_plain(in_any_tree(parts, merge_results, rng)), to_plain(whole)
    np.testing.assert_allclose(*(sums(plain) for plain in (found, wanted)), rtol=1e-12)
    assert json.dumps(found) == json.dumps(wanted)


def test_a_merged_measurement_is_judged_by_the_largest_difference():
    expected, actual = arrays(0)
    halves = [measured(expected, actual, rows) for rows in np.split(np.arange(60), 2)]
    found = judge(merge_results(*halves), 1e-4)
    size = np.abs(expected)
    needed = (np.abs(actual - expected) - RTOL * size).max()
    assert merge_results(*halves).scale == size.max()
    assert found.atol_needed == pytest.approx(needed)
    assert judge(merge_results(*halves), needed * 1.001)
    assert not judge(merge_results(*halves), needed * 0.999)


def test_the_problems_of_all_parts_are_reported():
    expected, actual = arrays(0)
    good = measured(expected, actual, np.arange(30))
    (missing,) = measure({"y": expected[30:]}, {}, RTOL)
    for one, other in ((good, missing), (missing, good)):
        found = judge(merge_results(one, other), 1e9)
        assert not found
        assert "missing output" in found.problem
        assert found.max_abs == good.max_abs


def test_parts_with_different_tolerances_raise():
    one, other = (measure({"y": np.ones(2)}, {"y": np.ones(2)}, rtol)[0] for rtol in (0.0, 0.1))
    with pytest.raises(ValueError, match="only if they have the same output and the same rtol"):
        merge_results(one, other)


def partial(expected, actual, rows, rng):
    """Measurements of some samples."""
    labels = {"y": (expected[rows] > 0).astype(int)}
    tallies = [tally(labels, {"y": y[rows]}, {"y": expected[rows]}) for y in (expected, actual)]
    outputs = measure({"y": expected[rows]}, {"y": actual[rows]}, RTOL, rows.tolist())
    difference = np.abs(expected - actual)[rows]
    mode = ModeDifference("y", len(rows), difference.max(), difference.sum(), difference.size, 1.0)
    n = rng.integers(0, 9, (4, 1)).astype(float)
    layer = BatchStatistics(0, n, *rng.normal(size=(2, 4, 3)))
    return DataMeasurements(
        samples=len(rows),
        timesteps=int(rows[-1]),
        scales=(("y", float(np.abs(expected[rows]).max())),),
        rows_by_output=(("y", tuple(sorted({f"{y:.1f}" for y in expected[rows].flat})[:2])),),
        spreads=spreads({"y": expected[rows]}),
        tallies=tallies[0],
        artifacts=(
            ArtifactMeasurements("file", outputs, tallies[1]),
            ArtifactMeasurements("lost", error=f"at {rows[0]}"),
        ),
        gap=GapMeasurements((mode,), (layer,), *tallies),
    )


def assert_same(one, other):
    """Compare two results, and ignore the last digits of sums."""
    one, other = to_plain(one), to_plain(other)
    np.testing.assert_allclose(sums(one), sums(other), rtol=1e-12)
    spread = [plain.pop("spreads")[0] for plain in (one, other)]
    np.testing.assert_allclose(*(part["total"] for part in spread), rtol=1e-12, atol=1e-12)
    assert spread[0]["samples"] == spread[1]["samples"]
    for gap in (one["gap"], other["gap"]):
        gap["outputs"].sort(key=lambda seen: seen["rows"])
    (a, b), (c, d) = (
        ([gap["layers"], [seen.pop("total") for seen in gap["outputs"]]])
        for gap in (one["gap"], other["gap"])
    )
    del one["gap"]["layers"], other["gap"]["layers"]
    assert json.dumps(one) == json.dumps(other)
    np.testing.assert_allclose(b, d, rtol=1e-12)
    for name in ("positions", "mean", "variance"):
        np.testing.assert_allclose(a[0][name], c[0][name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_results_of_parts_merge_in_any_order(seed):
    rng = np.random.default_rng(seed)
    expected, actual = arrays(seed)
    parts = [partial(expected, actual, rows, rng) for rows in parts_of(rng)]
    in_order = merge(parts)
    assert in_order.samples == 60
    for _ in range(3):
        assert_same(in_any_tree(parts, lambda *two: merge(two), rng), in_order)


def test_an_empty_result_changes_no_other_result():
    expected, actual = arrays(0)
    one = partial(expected, actual, np.arange(9), np.random.default_rng(0))
    for parts in itertools.permutations((one, DataMeasurements(), merge([]))):
        assert_same(merge(parts), one)
