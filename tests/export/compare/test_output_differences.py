import numpy as np
import pytest

from keras_norm.export.compare.output_differences import (
    CELLS,
    DECADES,
    merge_profiles,
    profile_differences,
)
from tests.export.compared import compare


def one(expected, actual, rtol=0.0, atol=0.0):
    (result,) = compare({"y": expected}, {"y": actual}, rtol, atol)
    return result


def sequences():
    return np.arange(24, dtype="float32").reshape(2, 3, 4)


def test_equal_arrays_pass_with_no_tolerance():
    assert one(sequences(), sequences())


def test_a_difference_beyond_the_tolerance_is_falsy():
    assert not one(np.zeros(3), np.full(3, 0.2), atol=0.1)


def test_a_difference_at_the_tolerance_passes():
    assert one(np.array([2.0]), np.array([2.5]), rtol=0.25)


def test_the_worst_element_is_named_by_sample_timestep_and_unit():
    actual = sequences()
    actual[1, 2, 3] += 1
    assert one(sequences(), actual).where == (("sample", 1), ("timestep", 2), ("unit", 3))


@pytest.mark.parametrize(
    ("rank", "names"),
    [
        (1, ["sample"]),
        (2, ["sample", "unit"]),
        (4, ["sample", "axis 1", "axis 2", "unit"]),
    ],
)
def test_axes_of_other_ranks_have_names(rank, names):
    result = one(np.zeros((2,) * rank), np.ones((2,) * rank))
    assert [axis for axis, _ in result.where] == names


def test_the_element_shown_is_the_one_that_needs_the_widest_tolerance():
    # The first difference is larger, and within 1 % of what was expected.
    result = one(np.array([1000.0, 1.0]), np.array([1005.0, 2.0]), rtol=0.01)
    assert (result.where, result.expected, result.actual) == ((("sample", 1),), 1.0, 2.0)


def test_atol_needed_is_the_smallest_that_passes():
    expected, actual = np.array([1.0, 4.0]), np.array([1.5, 4.25])
    needed = one(expected, actual, rtol=0.125).atol_needed
    assert one(expected, actual, rtol=0.125, atol=needed)
    assert not one(expected, actual, rtol=0.125, atol=np.nextafter(needed, 0))


def test_the_worst_absolute_and_relative_differences_are_reported():
    result = one(np.array([10.0, 1.0]), np.array([12.0, 1.5]))
    assert (result.max_abs, result.max_rel) == (2.0, 0.5)


def test_a_relative_difference_from_zero_is_left_out():
    assert one(np.array([0.0, 2.0]), np.array([1.0, 3.0])).max_rel == 0.5


@pytest.mark.parametrize("side", ["expected", "actual", "both"])
def test_nan_fails_at_any_tolerance(side):
    clean, dirty = np.zeros(3), np.array([0.0, np.nan, 0.0])
    result = one(
        clean if side == "actual" else dirty, clean if side == "expected" else dirty, atol=1e9
    )
    assert not result
    assert "NaN" in result.problem


def test_the_position_of_a_nan_is_reported():
    assert one(np.zeros(3), np.array([5.0, np.nan, 0.0])).where == (("sample", 1),)


def test_an_infinity_where_a_number_is_expected_fails():
    result = one(np.zeros(2), np.array([0.0, np.inf]), atol=1e9)
    assert "infinity" in result.problem


def test_equal_infinities_pass():
    assert one(np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf]))


def test_a_missing_output_fails_and_the_others_are_compared():
    missing, present = compare({"a": np.zeros(1), "b": np.zeros(1)}, {"b": np.zeros(1)}, 0, 0)
    assert "missing" in missing.problem
    assert present


def test_an_extra_output_fails():
    _, extra = compare({"a": np.zeros(1)}, {"a": np.zeros(1), "b": np.zeros(1)}, 0, 0)
    assert (extra.output, extra.passed) == ("b", False)
    assert "extra" in extra.problem


def test_another_shape_fails_even_if_it_broadcasts():
    result = one(np.zeros((2, 3)), np.zeros((1, 3)))
    assert "(2, 3)" in result.problem
    assert "(1, 3)" in result.problem


def test_another_kind_of_dtype_fails():
    assert "dtype" in one(np.zeros(2, "float32"), np.zeros(2, "int32")).problem


def test_another_width_of_the_same_kind_passes():
    assert one(np.zeros(2, "float32"), np.zeros(2, "float16"))


def test_the_share_of_the_tolerance_that_is_used_is_one_at_the_limit():
    expected = np.array([0.0, 100.0])
    assert (
        one(expected, expected + 1.0, rtol=0.01, atol=1.0).used == 1.0
    )  # the first; 0.5 the other
    assert one(expected, expected).used == 0.0
    assert one(expected, expected + 1.0).used == np.inf
    assert one(expected, np.array([0.0, np.nan]), rtol=0.01, atol=1.0).used == np.inf


def test_integers_are_compared_exactly():
    assert not one(np.array([100000]), np.array([100001]), rtol=0.1, atol=10.0)


def test_an_empty_output_fails():
    assert "empty" in one(np.zeros((0, 3)), np.zeros((0, 3))).problem


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


def test_arrays_that_cannot_be_compared_have_no_profile():
    assert profile_differences(np.zeros(2), np.zeros(3)) is None


def test_equal_texts_pass_in_every_form():
    assert one(np.array([b"a", "é".encode()], object), np.array(["a", "é"]))


def test_texts_that_differ_fail_with_the_first_sample():
    result = one(np.array(["a", "b", "c"]), np.array(["a", "x", "y"]), atol=9.0)
    assert not result
    assert result.problem == "2 of 3 texts differ (sample 1: 'x', expected 'b')"


def test_numbers_do_not_equal_texts():
    assert "wrong dtype" in one(np.array(["1"]), np.array([1])).problem
