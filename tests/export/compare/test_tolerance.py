"""Default tolerances."""

import numpy as np
import pytest

from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.tolerance import (
    INTEGER_SHARE,
    TOLERANCES,
    Tolerance,
    coarsest,
)


@pytest.mark.parametrize(
    ("precision", "layers", "timesteps", "times"),
    [(name, 2, 16, 1) for name in TOLERANCES]
    + [(name, 8, 400, 16) for name in ("float32", "float64")]
    + [(name, 8, 400, 1) for name in ("float16", "bfloat16", "int8")],
)
def test_the_tolerance_grows_with_layers_and_the_root_of_time(precision, layers, timesteps, times):
    expected = Expected((), precision, layers, timesteps, {"y": 3.0, "zeros": 0.0})
    share = times * TOLERANCES[precision]
    assert expected.share(precision) == pytest.approx(share)
    found = expected.tolerance()
    assert found.rtol == TOLERANCES[precision]
    assert found.atol == pytest.approx({"y": 3.0 * share, "zeros": share})


def test_a_quarter_of_the_integers_may_differ_for_rounded_weights():
    ids = np.arange(40)
    for others, right in ((0, True), (10, True), (11, False)):
        found = {"y": np.where(ids < others, ids + 1, ids)}
        failed = Tolerance(0.0, {}, integer_share=INTEGER_SHARE).first_failure({"y": ids}, found)
        assert (failed is None) == right
        assert (Tolerance(0.0, {}).first_failure({"y": ids}, found) is None) == (others == 0)


def test_two_calls_may_have_nan_at_one_position_but_no_extra_output():
    tolerance, nan = Tolerance(0.0, {"y": 0.0}), {"y": np.array([np.nan, 1.0])}
    assert tolerance.first_failure(nan, nan) is None
    assert tolerance.first_failure(nan, {"y": np.array([np.nan, 2.0])}) is not None
    assert tolerance.first_failure(nan, {**nan, "more": np.zeros(1)}) is not None


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


def test_the_largest_allowed_difference_is_that_of_the_largest_value():
    allowed = Tolerance(0.1, {"y": 0.5}).largest_allowed({"y": np.array([-20.0, 3.0])})
    assert allowed == {"y": 2.5}
