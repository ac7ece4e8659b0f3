import functools
import json

import numpy as np
import pytest

from keras_norm.export.compare.output_differences import (
    CELLS,
    DECADES,
    add_profiles,
    measure,
    merge_measurements,
    merge_profiles,
    profile_differences,
)
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.json_dataclass import to_plain
from keras_norm.export.results.output_comparison import Element
from tests.export.compared import compare


def one(expected, actual, rtol=0.0, atol=0.0):
    (result,) = compare({"y": expected}, {"y": actual}, rtol, atol)
    return result


def sequences():
    return np.arange(24, dtype="float32").reshape(2, 3, 4)


NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "problem"),
    [
        (sequences(), sequences(), (0.0, 0.0), True),
        (np.zeros(3), np.full(3, 0.2), (0.0, 0.1), None),
        (np.array([2.0]), np.array([2.5]), (0.25, 0.0), True),
        (np.array([INF, -INF]), np.array([INF, -INF]), (0.0, 0.0), True),
        (np.zeros(2), np.array([0.0, INF]), (0.0, 1e9), "infinite in only one of the two outputs"),
        (np.array([0.0, NAN]), np.zeros(2), (0.0, 1e9), "NaN in 1 of 2 expected values"),
        (np.zeros(2), np.array([0.0, NAN]), (0.0, 1e9), "NaN in 1 of 2 actual values"),
        (np.array([0.0, NAN]), np.array([0.0, NAN]), (0.0, 1e9), "NaN in 1 of 2 expected values"),
        (np.zeros((2, 3)), np.zeros((1, 3)), (0.0, 0.0), "expected (2, 3), received (1, 3)"),
        (np.zeros((0, 3)), np.zeros((0, 3)), (0.0, 0.0), "no values to compare"),
        (np.zeros(2, "float32"), np.zeros(2, "int32"), (0.0, 0.0), "wrong dtype"),
        (np.zeros(2, "float32"), np.zeros(2, "float16"), (0.0, 0.0), True),
        (np.array([100000]), np.array([100001]), (0.1, 10.0), None),
        (np.array([b"a", "é".encode()], object), np.array(["a", "é"]), (0.0, 0.0), True),
        (
            np.array(["a", "b", "c"]),
            np.array(["a", "x", "y"]),
            (0.0, 9.0),
            "2 of 3 texts differ (sample 1: 'x', expected 'b')",
        ),
        (np.array(["1"]), np.array([1]), (0.0, 0.0), "wrong dtype"),
    ],
    ids=[
        "equal",
        "beyond the tolerance",
        "at the tolerance",
        "equal infinities",
        "one infinity",
        "NaN expected",
        "NaN received",
        "NaN on both sides",
        "a shape that broadcasts",
        "empty",
        "another kind",
        "another width of one kind",
        "integers are exact",
        "equal texts in two forms",
        "other texts",
        "a number for a text",
    ],
)
def test_a_comparison_passes_or_names_the_problem(expected, actual, tolerance, problem):
    """True passes; None fails by the tolerance; a text is part of the problem."""
    result = one(expected, actual, *tolerance)
    assert bool(result) == (problem is True)
    if isinstance(problem, str):
        assert problem in result.problem
    else:
        assert result.problem is None


@pytest.mark.parametrize(
    ("rank", "names"),
    [
        (1, ["sample"]),
        (2, ["sample", "unit"]),
        (3, ["sample", "timestep", "unit"]),
        (4, ["sample", "axis 1", "axis 2", "unit"]),
    ],
)
def test_the_worst_element_is_named_by_its_axes(rank, names):
    actual = np.zeros((2,) * rank)
    actual[(1,) * rank] = 1.0
    assert one(np.zeros((2,) * rank), actual).where == tuple((name, 1) for name in names)


def test_the_element_shown_is_the_one_that_needs_the_widest_tolerance():
    # The first difference is larger, and within 1 % of what was expected.
    result = one(np.array([1000.0, 1.0]), np.array([1005.0, 2.0]), rtol=0.01)
    assert result.worst == Element((("sample", 1),), 1.0, 2.0)


def test_atol_needed_is_the_smallest_that_passes():
    expected, actual = np.array([1.0, 4.0]), np.array([1.5, 4.25])
    needed = one(expected, actual, rtol=0.125).atol_needed
    assert one(expected, actual, rtol=0.125, atol=needed)
    assert not one(expected, actual, rtol=0.125, atol=np.nextafter(needed, 0))
    assert one(np.array([1]), np.array([2])).atol_needed is None


def test_the_worst_absolute_and_relative_differences_are_reported_without_those_from_zero():
    result = one(np.array([10.0, 1.0, 0.0]), np.array([12.0, 1.5, 1.0]))
    assert (result.max_abs, result.max_rel) == (2.0, 0.5)


def test_the_position_of_a_nan_is_reported():
    assert one(np.zeros(3), np.array([5.0, np.nan, 0.0])).where == (("sample", 1),)


def test_missing_and_extra_outputs_fail_and_the_others_are_compared():
    zeros = np.zeros(1)
    missing, present, extra = compare({"a": zeros, "b": zeros}, {"b": zeros, "c": zeros}, 0, 0)
    assert "missing" in missing.problem
    assert present
    assert (extra.output, extra.passed) == ("c", False)
    assert "extra" in extra.problem


def test_the_share_of_the_tolerance_that_is_used_is_one_at_the_limit():
    expected = np.array([0.0, 100.0])
    assert (
        one(expected, expected + 1.0, rtol=0.01, atol=1.0).used == 1.0
    )  # the first; 0.5 the other
    assert one(expected, expected).used == 0.0
    assert one(expected, expected + 1.0).used == np.inf
    assert one(expected, np.array([0.0, np.nan]), rtol=0.01, atol=1.0).used == np.inf


# Difference profiles -----------------------------------------------------------------------------


def profile_of_sequence(difference):
    """The profile of one sequence whose differences are these, (timesteps, units)."""
    return profile_differences(np.zeros((1, *np.shape(difference))), np.asarray(difference)[None])


def test_a_sequence_is_mapped_over_time_and_unit():
    actual = np.array([[[0, 1, 0], [0, 0, 2]], [[3, 0, 0], [0, 0, 1.0]]])
    found = profile_differences(np.zeros((2, 2, 3)), actual)
    assert found.axes == ("timestep", "unit")
    assert found.worst == ((3.0, 1.0, 0.0), (0.0, 0.0, 2.0))


def test_an_output_without_time_is_mapped_over_its_units():
    found = profile_differences(np.zeros((2, 3)), np.array([[0.0, 0.5, 0.0], [0.25, 0.0, 0.0]]))
    assert (found.axes, found.worst) == (("unit",), (0.25, 0.5, 0.0))


def test_the_map_has_the_first_and_the_last_axis_of_more_axes():
    actual = np.zeros((2, 3, 4, 5))
    actual[1, 2, 3, 4] = 1.0
    found = profile_differences(np.zeros((2, 3, 4, 5)), actual)
    assert found.axes == ("axis 1", "unit")
    assert np.argwhere(found.worst).tolist() == [[2, 4]]


def test_every_element_is_counted_once():
    counts = profile_differences(np.zeros(4), np.array([0.0, 1e-3, 0.05, np.nan])).counts
    by_bound = dict(zip(DECADES, counts, strict=True))
    assert (by_bound[0.0], by_bound[1e-3], by_bound[1e-1], by_bound[np.inf]) == (1, 1, 1, 1)


def test_the_scale_is_the_largest_expected_value():
    assert (
        profile_differences(np.array([[1.0, -3.0, np.inf]]), np.array([[9.0, 9.0, 9.0]])).scale
        == 3.0
    )


def test_two_lengths_merge():
    both = merge_profiles(
        profile_of_sequence([[3.0], [0.0]]), profile_of_sequence([[1.0], [2.0], [4.0]])
    )
    assert both.worst == ((3.0,), (2.0,), (4.0,))
    assert sum(both.counts) == 5


def test_a_nan_stays_the_worst():
    both = merge_profiles(profile_of_sequence([[np.nan, 1.0]]), profile_of_sequence([[2.0, 2.0]]))
    assert np.isnan(both.worst[0][0])
    assert both.worst[0][1] == 2.0


@pytest.mark.parametrize("size", [CELLS, CELLS + 1, 2 * CELLS, 1000])
def test_a_long_output_has_few_cells_with_the_maxima(size):
    difference = np.random.default_rng(size).random((size, 2)).round(2)
    found = profile_of_sequence(difference)
    width = found.widths[0]
    assert len(found.worst) <= CELLS
    for cell, start in enumerate(range(0, size, width)):
        assert found.worst[cell] == tuple(difference[start : start + width].max(axis=0))


@pytest.mark.parametrize("lengths", [(100, 150), (150, 100), (1, 1000)])
def test_profiles_of_different_lengths_merge_to_the_profile_of_one_batch(lengths):
    parts = [np.random.default_rng(n).random((n, 3)).round(2) for n in lengths]
    together = np.zeros((max(lengths), 3))
    for part in parts:
        together[: len(part)] = np.maximum(together[: len(part)], part)
    first, second = map(profile_of_sequence, parts)
    assert merge_profiles(first, second).worst == profile_of_sequence(together).worst
    profiles = {}
    for part in parts:
        add_profiles(profiles, {"y": np.zeros((1, *part.shape)), "z": part}, {"y": part[None]})
    assert profiles == {"y": merge_profiles(first, second)}


def test_arrays_that_cannot_be_compared_have_no_profile():
    assert profile_differences(np.zeros(2), np.zeros(3)) is None


RTOL = 0.01
RNG = np.random.default_rng(0)
EXPECTED = RNG.normal(size=(60, 5, 3)) * np.exp(RNG.normal(size=(60, 1, 1)))
NOT_FINITE = EXPECTED.copy()
NOT_FINITE[17, 2, 1], NOT_FINITE[41, 0, 0] = np.nan, np.inf
LARGE = np.where(np.arange(180) < 3, 1000.0, 1.0).reshape(60, 3)  # may differ by 10
OUTPUTS = {
    "close": (EXPECTED, EXPECTED + 1e-3 * RNG.normal(size=EXPECTED.shape)),
    "proportional": (EXPECTED, EXPECTED * 1.125),  # many elements need nearly the same tolerance
    "equal errors": (EXPECTED.round(1), EXPECTED.round(1) + 0.25),
    "within rtol": (LARGE, LARGE + 0.005 * LARGE + (np.arange(180) == 100).reshape(60, 3)),
    "not finite": (EXPECTED, NOT_FINITE),
    "integers": (np.arange(180).reshape(60, 3) % 7, np.arange(180).reshape(60, 3) % 6),
}


def measured(expected, actual, rows=slice(None)):
    rows = np.arange(60)[rows]
    (found,) = measure({"y": expected[rows]}, {"y": actual[rows]}, RTOL, rows.tolist())
    return found


def judge(found, atol):
    return Tolerance(RTOL, {"y": atol}).judge(found)


@pytest.mark.parametrize("outputs", OUTPUTS.values(), ids=OUTPUTS)
def test_batches_of_any_size_give_the_measurement_of_all_data(outputs):
    batches = [slice(0, 1), slice(1, 20), slice(20, 35), slice(35, 60)]
    parts = [measured(*outputs, rows) for rows in batches]
    found, whole = (
        to_plain(x) for x in (functools.reduce(merge_measurements, parts), measured(*outputs))
    )
    assert float(found.pop("squared")) == pytest.approx(float(whole.pop("squared")), nan_ok=True)
    assert json.dumps(found) == json.dumps(whole)


def test_a_problem_in_any_batch_is_reported():
    good = measured(*OUTPUTS["close"])
    (missing,) = measure({"y": EXPECTED[30:]}, {}, RTOL)
    for pair in ((good, missing), (missing, good)):
        found = judge(merge_measurements(*pair), 1e9)
        assert not found
        assert "missing output" in found.problem
        assert found.max_abs == good.max_abs
