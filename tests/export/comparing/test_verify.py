"""What is said of a file that computes something else."""

import numpy as np
import pytest

from keras_norm.export.comparing.verify import require_same
from keras_norm.export.errors import VerificationError


@pytest.mark.parametrize(
    ("got", "quantize", "message"),
    [
        ([1.0, 2.1, np.nan], None, r"differs by up to 0\.1.* and 0\.0002 is allowed"),
        ([1.0, 2.0], None, "wrong shape"),
        (None, "int8", "missing output"),
        ([1.0, 2.0, 3.0], None, "NaN in 1 of 3 expected values"),
        ([1.0, np.inf, np.nan], "int8", "infinity on one side only"),
    ],
)
def test_what_differs_is_said(got, quantize, message):
    wanted = np.array([1.0, 2.0, np.nan])
    got = None if got is None else np.array(got)
    with pytest.raises(VerificationError, match=message):
        require_same("y", wanted, got, {"x": np.zeros((3, 1))}, quantize)


def test_nan_on_both_sides_and_any_number_in_8_bits_are_taken():
    wanted = np.array([1.0, 2.0, np.nan])
    require_same("y", wanted, wanted.copy(), {}, None)
    require_same("y", wanted, np.array([9.0, 0.0, np.nan]), {}, "int8")
    require_same("y", np.array([1, 2]), np.array([2, 1]), {}, "float16")
