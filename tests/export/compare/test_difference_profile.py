import numpy as np
import pytest

from keras_norm.export.compare.difference_profile import CELLS, DECADES, merged, profile


def sequences(difference):
    """A profile of one sequence whose differences are these, (timesteps, units)."""
    return profile(np.zeros((1, *np.shape(difference))), np.asarray(difference)[None])


def test_a_sequence_is_mapped_over_time_and_unit():
    actual = np.array([[[0, 1, 0], [0, 0, 2]], [[3, 0, 0], [0, 0, 1.0]]])
    found = profile(np.zeros((2, 2, 3)), actual)
    assert found.axes == ("timestep", "unit")
    assert found.worst == ((3.0, 1.0, 0.0), (0.0, 0.0, 2.0))


def test_an_output_without_time_is_mapped_over_its_units():
    found = profile(np.zeros((2, 3)), np.array([[0.0, 0.5, 0.0], [0.25, 0.0, 0.0]]))
    assert (found.axes, found.worst) == (("unit",), (0.25, 0.5, 0.0))


def test_of_more_axes_the_first_and_the_last_are_kept():
    actual = np.zeros((2, 3, 4, 5))
    actual[1, 2, 3, 4] = 1.0
    found = profile(np.zeros((2, 3, 4, 5)), actual)
    assert found.axes == ("axis 1", "unit")
    assert np.argwhere(found.worst).tolist() == [[2, 4]]


def test_every_element_is_counted_once():
    counts = profile(np.zeros(4), np.array([0.0, 1e-3, 0.05, np.nan])).counts
    by_bound = dict(zip(DECADES, counts, strict=True))
    assert (by_bound[0.0], by_bound[1e-3], by_bound[1e-1], by_bound[np.inf]) == (1, 1, 1, 1)


def test_the_scale_is_the_largest_expected_value():
    assert profile(np.array([[1.0, -3.0, np.inf]]), np.array([[9.0, 9.0, 9.0]])).scale == 3.0


def test_two_lengths_merge():
    both = merged(sequences([[3.0], [0.0]]), sequences([[1.0], [2.0], [4.0]]))
    assert both.worst == ((3.0,), (2.0,), (4.0,))
    assert sum(both.counts) == 5


def test_a_nan_stays_the_worst():
    both = merged(sequences([[np.nan, 1.0]]), sequences([[2.0, 2.0]]))
    assert np.isnan(both.worst[0][0])
    assert both.worst[0][1] == 2.0


@pytest.mark.parametrize("size", [CELLS, CELLS + 1, 2 * CELLS, 1000])
def test_a_long_output_has_few_cells_that_hold_its_maxima(size):
    difference = np.random.default_rng(size).random((size, 2)).round(2)
    found = sequences(difference)
    width = found.widths[0]
    assert len(found.worst) <= CELLS
    for cell, start in enumerate(range(0, size, width)):
        assert found.worst[cell] == tuple(difference[start : start + width].max(axis=0))


@pytest.mark.parametrize("lengths", [(100, 150), (150, 100), (1, 1000)])
def test_lengths_of_different_cells_merge_as_if_they_were_one_batch(lengths):
    parts = [np.random.default_rng(n).random((n, 3)).round(2) for n in lengths]
    together = np.zeros((max(lengths), 3))
    for part in parts:
        together[: len(part)] = np.maximum(together[: len(part)], part)
    first, second = map(sequences, parts)
    assert merged(first, second).worst == sequences(together).worst


def test_arrays_that_cannot_be_compared_have_no_profile():
    assert profile(np.zeros(2), np.zeros(3)) is None
