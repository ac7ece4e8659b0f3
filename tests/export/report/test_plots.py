import base64
import io

import numpy as np
import pytest
from PIL import Image

from keras_norm.export.compare.output_differences import profile_differences
from keras_norm.export.report.plots import (
    BLUE,
    RED,
    Axis,
    color_levels,
    colors,
    difference_map,
    draw_distances,
)
from keras_norm.export.results.gap_result import LayerStatistics
from tests.export.compared import compare


def drawn(actual, rtol=1e-5, atol=1e-5):
    """Draw the map of an output whose expected values are all 0."""
    expected = np.zeros(np.shape(actual))
    (comparison,) = compare({"y": expected}, {"y": np.asarray(actual)}, rtol, atol)
    return difference_map(comparison, profile_differences(expected, actual))


def pixels(uri):
    head, _, data = uri.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize(
    ("difference", "level"),
    [(0.0, 0.0), (1e-9, 0.1), (0.01, 0.5), (1.0, 1.0), (10.0, 1.5), (1e9, 2.0), (np.nan, 2.0)],
)
def test_the_scale_is_logarithmic_with_the_limit_at_one(difference, level):
    assert color_levels(np.array(difference), 1.0) == pytest.approx(level)


def test_any_difference_exceeds_a_limit_of_zero():
    np.testing.assert_array_equal(color_levels(np.array([0.0, 1.0]), 0.0), [0.0, 2.0])


def test_colors_run_from_transparent_over_blue_to_red():
    expected = [[*BLUE, 0], [*BLUE, 255], [*RED, 255]]
    assert colors(np.array([0.0, 1.0, 2.0])).tolist() == expected


def test_the_time_axis_is_horizontal():
    actual = np.zeros((2, 5, 3))
    actual[1, 4, 0] = 1.0
    found = drawn(actual)
    assert np.argwhere(pixels(found.image)[..., 3]).tolist() == [[0, 4]]  # row: unit, column: time
    assert (found.across.name, found.down.name) == ("timestep", "unit")
    assert (found.across.ticks, found.down.ticks) == ((0, 2, 4), (0, 1, 2))
    assert (found.across.mark, found.down.mark) == (pytest.approx(90.0), pytest.approx(100 / 6))


@pytest.mark.parametrize(
    ("shape", "wrong", "across", "cells"),
    [
        ((1, 3), (0, 1), Axis("unit", (0, 1, 2), 1, 50.0), (1, 3)),
        # The cells are rows of a batch, but a failure names the sample in the data.
        ((32,), 3, Axis("sample", (), 1, None), (1, 32)),
        ((1, 512, 1), (0, 300), Axis("timestep", (0, 252, 508), 4, 100 * 75.5 / 128), (1, 128)),
    ],
)
def test_ticks_and_mark_are_indices_of_the_output(shape, wrong, across, cells):
    actual = np.zeros(shape)
    actual[wrong] = 1.0
    found = drawn(actual)
    assert found.across == across
    assert pixels(found.image).shape == (*cells, 4)


def test_the_histogram_has_a_bar_for_equality_and_for_each_decade():
    bars = drawn(np.array([[0.0, 0.0, 5e-8, 0.05]])).bars
    labels = "0 1e-7 1e-6 1e-5 1e-4 1e-3 0.01 0.1"
    assert [bar.label for bar in bars] == labels.split()
    assert [bar.share for bar in bars] == [50, 25, 0, 0, 0, 0, 0, 25]
    assert [bar.height for bar in bars] == [100, 50, 0, 0, 0, 0, 0, 50]


def test_bars_of_passing_values_are_blue_and_infinite_differences_have_a_bar():
    bars = drawn(np.array([[0.9e-5, 0.5e-6]])).bars
    assert all(bar.color.startswith("rgb(59 130 246") for bar in bars[1:])
    assert drawn(np.array([[np.inf, np.nan, 0.0]])).bars[-1].label == "more"


def test_a_failed_element_is_drawn_above_the_limit():
    expected = np.array([[100.0, 1.0]])
    actual = np.array([[100.0, 1.03]])
    (comparison,) = compare({"y": expected}, {"y": actual}, 0.01, 0.01)
    image = pixels(difference_map(comparison, profile_differences(expected, actual)).image)
    assert image[0, 1, 0] > 200  # orange, where blue has little red


def test_the_strip_is_blank_for_rows_that_were_not_reached_and_one_row_has_none():
    rows = LayerStatistics("bn", 0.5, 0.0, (0.5, None, 3.0), 2, 3, "")
    image = pixels(draw_distances(rows))
    assert image[0, :, 3].tolist() == [127, 0, 255]
    assert image[0, 2, :3].tolist() == list(RED)
    assert draw_distances(LayerStatistics("bn", 0.5, 0.0, (0.5,), 1, 1, "")) == ""
