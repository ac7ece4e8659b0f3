import base64
import io

import numpy as np
import pytest
from PIL import Image

from keras_norm.export.compare.output_differences import profile_differences
from keras_norm.export.report.plots import (
    BLUE,
    RED,
    color_levels,
    colors,
    difference_map,
    draw_distances,
)
from keras_norm.export.results.check_result import LayerStatistics
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
    assert colors(np.array([0.0, 1.0, 2.0])).tolist() == [
        [*BLUE, 0],
        [*BLUE, 255],
        [*RED, 255],
    ]


def test_the_time_axis_is_horizontal():
    actual = np.zeros((2, 5, 3))
    actual[1, 4, 0] = 1.0
    found = drawn(actual)
    assert np.argwhere(pixels(found.image)[..., 3]).tolist() == [[0, 4]]  # row: unit, column: time
    assert (found.across.name, found.down.name) == ("timestep", "unit")
    assert (found.across.ticks, found.down.ticks) == ((0, 2, 4), (0, 1, 2))
    assert (found.across.mark, found.down.mark) == (pytest.approx(90.0), pytest.approx(100 / 6))


def test_the_map_of_an_output_without_time_has_one_row():
    found = drawn(np.array([[0.0, 1.0, 0.0]]))
    assert pixels(found.image).shape == (1, 3, 4)
    assert (found.across.name, found.down.name) == ("unit", "")


def test_the_map_of_an_output_without_units_has_no_mark():
    """The cells are rows of a batch, but a failure names the sample in the data."""
    actual = np.zeros(32)
    actual[3] = 1.0
    axis = drawn(actual).across
    assert (axis.name, axis.ticks, axis.mark) == ("sample", (), None)


def test_ticks_and_mark_are_indices_of_the_output():
    actual = np.zeros((1, 512, 1))
    actual[0, 300] = 1.0
    found = drawn(actual).across
    assert found.width == 4
    assert found.ticks == (0, 252, 508)
    assert found.mark == pytest.approx(100 * (75 + 0.5) / 128)


def test_the_histogram_has_a_bar_for_equality_and_for_each_decade():
    bars = drawn(np.array([[0.0, 0.0, 5e-8, 0.05]])).bars
    assert [bar.label for bar in bars] == [
        "0",
        "1e-7",
        "1e-6",
        "1e-5",
        "1e-4",
        "1e-3",
        "0.01",
        "0.1",
    ]
    assert [bar.share for bar in bars] == [50, 25, 0, 0, 0, 0, 0, 25]
    assert [bar.height for bar in bars] == [100, 50, 0, 0, 0, 0, 0, 50]


def test_bars_of_passing_values_are_blue():
    bars = drawn(np.array([[0.9e-5, 0.5e-6]])).bars
    assert all(bar.color.startswith("rgb(59 130 246") for bar in bars[1:])


def test_a_failed_element_is_drawn_above_the_limit():
    expected = np.array([[100.0, 1.0]])
    actual = np.array([[100.0, 1.03]])
    (comparison,) = compare({"y": expected}, {"y": actual}, 0.01, 0.01)
    image = pixels(difference_map(comparison, profile_differences(expected, actual)).image)
    assert image[0, 1, 0] > 200  # orange, where blue has little red


def test_infinite_differences_have_a_bar():
    assert drawn(np.array([[np.inf, np.nan, 0.0]])).bars[-1].label == "more"


def test_the_strip_is_blank_for_rows_that_were_not_reached():
    rows = LayerStatistics("bn", 0.5, 0.0, (0.5, None, 3.0), 2, 3, "")
    image = pixels(draw_distances(rows))
    assert image[0, :, 3].tolist() == [127, 0, 255]
    assert image[0, 2, :3].tolist() == list(RED)


def test_a_layer_with_one_row_has_no_strip():
    assert draw_distances(LayerStatistics("bn", 0.5, 0.0, (0.5,), 1, 1, "")) == ""
