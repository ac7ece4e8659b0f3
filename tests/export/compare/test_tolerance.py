"""Default tolerances."""

import numpy as np
import pytest

from keras_norm.export.compare.tolerance import (
    INTEGER_SHARE,
    TOLERANCES,
    Tolerance,
    coarsest,
    default_share,
    default_tolerance,
)


@pytest.mark.parametrize("precision", TOLERANCES)
def test_a_shallow_model_has_the_tolerance_of_its_precision(precision):
    assert default_share(precision, layers=2, timesteps=16) == TOLERANCES[precision]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_tolerance_grows_with_layers_and_the_root_of_time(precision):
    share = default_share(precision, layers=8, timesteps=400)
    assert share == pytest.approx(16 * TOLERANCES[precision])


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_the_tolerance_of_coarse_dtypes_does_not_depend_on_the_depth(precision):
    assert default_share(precision, layers=8, timesteps=400) == TOLERANCES[precision]


def test_a_quarter_of_the_integers_may_differ_for_rounded_weights():
    ids = np.arange(40)
    for others, right in ((0, True), (10, True), (11, False)):
        found = {"y": np.where(ids < others, ids + 1, ids)}
        failed = Tolerance(0.0, {}, integer_share=INTEGER_SHARE).first_failure({"y": ids}, found)
        assert (failed is None) == right
        assert (Tolerance(0.0, {}).first_failure({"y": ids}, found) is None) == (others == 0)


@pytest.mark.parametrize(
    ("precisions", "expected"),
    [
        (["float32", "float64"], "float32"),
        (["float16", "float32"], "float16"),
        (["int8", "float16"], "int8"),
        (["int32"], "float64"),
    ],
)
def test_the_coarsest_precision_sets_the_tolerance(precisions, expected):
    assert coarsest(precisions) == expected


def test_the_atol_of_each_output_is_relative_to_its_largest_value():
    found = default_tolerance("float32", 8, 400, {"y": 3.0, "zeros": 0.0})
    assert found.rtol == TOLERANCES["float32"]
    assert found.atol == pytest.approx({"y": 4.8e-4, "zeros": 1.6e-4})


def test_the_largest_allowed_difference_is_that_of_the_largest_value():
    allowed = Tolerance(0.1, {"y": 0.5}).largest_allowed({"y": np.array([-20.0, 3.0])})
    assert allowed == {"y": 2.5}
