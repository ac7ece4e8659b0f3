"""The random inputs that a file is run on before it is written."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export.comparing.verify import require_same, verification_cases
from keras_norm.export.errors import VerificationError


@pytest.mark.parametrize("length", [1, 2, 6])
def test_a_masked_input_has_a_padded_end_and_no_sequence_is_all_padding(length):
    inputs = keras.Input((length, 3), name="x")
    x = keras_norm.LayerNormGRU(2)(keras.layers.Masking(mask_value=7.0)(inputs))
    for case, _ in verification_cases(keras.Model(inputs, x)):
        masked = (case["x"] == 7.0).all(axis=-1)
        assert not masked.all(axis=1).any()
        assert masked[-1, -1] or length < 3


def test_a_model_that_runs_at_no_shape_is_refused():
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, keras.layers.Conv1D(2, 1000)(inputs))
    with pytest.raises(ValueError, match="gives no output for random inputs"):
        verification_cases(model)


def test_open_sizes_differ_between_the_cases():
    inputs = keras.Input((None, 3), name="x")
    model = keras.Model(inputs, keras_norm.LayerNormGRU(2)(inputs))
    first, second = (case["x"].shape for case, _ in verification_cases(model))
    assert np.all(np.array(first)[:2] != np.array(second)[:2])


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
