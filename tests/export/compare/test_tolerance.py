"""Default tolerances."""

import dataclasses

import numpy as np
import pytest

from keras_norm.export.compare.arrays import magnitude
from keras_norm.export.compare.expected import Expected
from keras_norm.export.compare.quantization_tolerance import spreads
from keras_norm.export.compare.samples import Case
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


def expected_of(**outputs):
    """Return the outputs of a float32 model for a case, and for an edge case 10 times as large."""
    arrays = {name: np.asarray(y) for name, y in outputs.items()}
    case = Case("batch 2", (0, 1), None, {}, outputs=arrays)
    edge = Case("zeros", (0, 1), None, {}, outputs={n: 10 * y for n, y in arrays.items()})
    scales = {name: magnitude(y) for name, y in arrays.items()}
    return Expected((case,), "float32", 1, 1, scales, (edge,), spreads=spreads(arrays))


@pytest.mark.parametrize(
    ("precision", "user", "integers", "edge_atol", "finite_only"),
    [
        ("float64", None, 0.0, 3e-4, False),
        ("float16", None, 1.0, 0.3, False),
        ("int8", None, 1.0, 1.5, True),
        ("int8", 0.5, 1.0, 0.5, False),
    ],
)
def test_a_single_test_input_has_its_own_tolerance(
    precision, user, integers, edge_atol, finite_only
):
    expected = dataclasses.replace(expected_of(y=[[1.0], [3.0]]), atol=user)
    case, edge = (expected.case_tolerance(c, precision) for c in expected.all_cases)
    assert (case.integer_share, edge.integer_share) == (integers, 1.0)
    assert edge.atol == {"y": pytest.approx(edge_atol)}
    assert case.atol == {"y": user or pytest.approx(edge_atol / 10)}
    assert case.limits == edge.limits == ({} if finite_only else None)


def test_two_calls_of_an_8_bit_file_are_compared_by_rtol_and_atol():
    tolerance = expected_of(y=[[1.0], [3.0]]).tolerance("int8")
    assert tolerance.limits == {"y": pytest.approx(0.25)}
    assert (tolerance.calls.limits, tolerance.calls.integer_share) == (None, 0.0)
    assert tolerance.calls.atol == tolerance.atol == {"y": pytest.approx(0.15)}


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
