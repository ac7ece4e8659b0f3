"""The picture of the differences: one axes for each output, one line for each artifact."""

import dataclasses

import numpy as np
import pytest

from keras_norm.export.compare.output_differences import profile_differences
from keras_norm.export.results.output_comparison import OutputResult
from tests.export.compared import compare
from tests.export.report.reports import EXPECTED, RNG, artifact, report_of


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def with_outputs(name, outputs, expected=EXPECTED):
    """An artifact with the given values of outputs, by output name."""
    found = []
    for output, actual in outputs.items():
        (comparison,) = compare({output: expected}, {output: actual}, 1e-5, 1e-5)
        profile = profile_differences(expected, actual)
        found.append(OutputResult(output, ("batch 2",), (comparison,), profile))
    return artifact(name, EXPECTED, outputs=tuple(found))


def test_a_line_is_the_largest_difference_at_each_timestep():
    actual = EXPECTED + RNG.normal(size=EXPECTED.shape)
    (axes,) = report_of(artifact("saved_model", actual)).plot().axes
    line = lines(axes)["saved_model"]
    expected = np.abs(actual - EXPECTED).max(axis=(0, 2))
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=0.01)  # profiles have three digits
    assert line.get_xdata().tolist() == [0, 1, 2]
    assert axes.get_xlabel() == "timestep"
    assert axes.get_yscale() == "log"
    assert axes.get_title("left") == "output sequence"


def test_the_tolerance_at_the_largest_value_is_a_dashed_line():
    expected = np.full((2, 3, 4), 3.0)
    both = (with_outputs(n, {"y": expected + d}, expected) for n, d in (("a", 0.1), ("b", 0.2)))
    (axes,) = report_of(*both).plot().axes
    line = lines(axes)["tolerance for float32"]
    np.testing.assert_allclose(line.get_ydata(), 1e-5 + 1e-5 * 3.0)
    assert line.get_linestyle() == "--"
    assert len(lines(axes)) == 3


@pytest.mark.parametrize(
    ("precision", "rms", "label"),
    [
        ("float16", None, "tolerance for float16"),
        ("dynamic", 0.1, "limit of the root mean square for dynamic"),
    ],
)
def test_each_precision_has_its_tolerance_or_limit(precision, rms, label):
    (output,) = artifact("m", EXPECTED + 0.01).outputs
    judged = dataclasses.replace(output.comparisons[0], atol=0.5, rtol=0.0, rms=rms)
    outputs = (dataclasses.replace(output, comparisons=(judged,)),)
    coarse = artifact("m", EXPECTED, precision=precision, outputs=outputs)
    (axes,) = report_of(coarse, artifact("single", EXPECTED)).plot().axes
    assert lines(axes)[label].get_ydata() == [0.5, 0.5]
    assert "tolerance for float32" in lines(axes)


def test_an_output_without_timesteps_is_drawn_over_its_units():
    expected = np.zeros((2, 5))
    result = with_outputs("saved_model", {"kind": expected + np.arange(5.0)}, expected)
    (axes,) = report_of(result).plot().axes
    line = lines(axes)["saved_model"]
    assert axes.get_xlabel() == "unit"
    np.testing.assert_array_equal(line.get_ydata(), [np.nan, 1, 2, 3, 4])
    assert line.get_linestyle() == "None"


def test_an_output_of_one_unit_has_one_tick():
    result = with_outputs("saved_model", {"score": np.ones((2, 1))}, np.zeros((2, 1)))
    (axes,) = report_of(result).plot().axes
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [0]


def test_artifacts_with_equal_differences_share_a_line_and_keep_their_color():
    shifted = {"first": EXPECTED + 0.1, "second": EXPECTED + 0.2}
    report = report_of(
        with_outputs("a", shifted),
        with_outputs("b", {**shifted, "second": EXPECTED}),
        with_outputs("c", shifted),
    )
    first, second = report.plot().axes
    assert set(lines(first)) == {"a\nb\nc", "tolerance for float32"}
    assert set(lines(second)) == {"a\nc", "b (equal)", "tolerance for float32"}
    assert lines(first)["a\nb\nc"].get_color() == lines(second)["a\nc"].get_color()


def test_nan_is_marked_at_the_top():
    nan = EXPECTED + 0.1
    nan[1, 2, 3] = np.nan
    (axes,) = report_of(artifact("saved_model", nan)).plot().axes
    marks = lines(axes)["saved_model: NaN or infinite"]
    assert marks.get_xdata().tolist() == [2]
    assert marks.get_marker() == "x"


def test_equal_outputs_and_many_timesteps_are_drawn(tmp_path):
    expected = np.zeros((1, 5000, 1))
    report = report_of(
        with_outputs("equal", {"long": expected}, expected),
        with_outputs("other", {"long": expected + 1.0}, expected),
        artifact("equal too", EXPECTED),
    )
    first, second = report.plot().axes
    positions = lines(first)["other"].get_xdata()
    assert 4900 < positions[-1] < 5000
    assert "equal too (equal)" in lines(second)
    report.plot().savefig(tmp_path / "differences.png")


@pytest.mark.parametrize("name", ["_private", "a$b$c", "$", "two\nlines"])
def test_names_of_any_letters_are_shown(name, tmp_path):
    report = report_of(with_outputs(name, {name: EXPECTED + 1.0}))
    figure = report.plot()
    figure.savefig(tmp_path / "differences.png")
    (legend,) = [axes.get_legend() for axes in figure.axes]
    assert len(legend.get_texts()) == 2


def test_a_report_without_outputs_raises():
    broken = artifact("broken", EXPECTED, outputs=(), error="it went away")
    with pytest.raises(ValueError, match="no differences to draw"):
        report_of(broken).plot()
