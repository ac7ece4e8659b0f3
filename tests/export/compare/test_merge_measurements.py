"""Merged measurements of batches equal the measurement of all data."""

import functools
import json

import numpy as np
import pytest

from keras_norm.export.compare.output_differences import measure, merge_measurements
from keras_norm.export.compare.tolerance import Tolerance
from keras_norm.export.results.json_dataclass import to_plain

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


def test_the_largest_difference_decides():
    expected, actual = OUTPUTS["close"]
    found = merge_measurements(*(measured(expected, actual, slice(k, k + 30)) for k in (0, 30)))
    needed = (np.abs(actual - expected) - RTOL * np.abs(expected)).max()
    assert judge(found, 1e-4).atol_needed == pytest.approx(needed)
    assert judge(found, needed * 1.001)
    assert not judge(found, needed * 0.999)


def test_a_problem_in_any_batch_is_reported():
    good = measured(*OUTPUTS["close"])
    (missing,) = measure({"y": EXPECTED[30:]}, {}, RTOL)
    for pair in ((good, missing), (missing, good)):
        found = judge(merge_measurements(*pair), 1e9)
        assert not found
        assert "missing output" in found.problem
        assert found.max_abs == good.max_abs
