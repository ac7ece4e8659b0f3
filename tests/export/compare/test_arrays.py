"""The dtypes of arrays."""

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.compare.arrays import can_convert, kind_of, numpy_dtype, to_numpy

VALUES = [[1.5, -0.25, 3.0]]


def test_float32_takes_the_place_of_bfloat16():
    assert numpy_dtype("bfloat16") == np.float32
    assert numpy_dtype("float16") == np.float16


def test_a_text_dtype_raises():
    with pytest.raises(TypeError):
        numpy_dtype("string")


@pytest.mark.parametrize(
    "tensor",
    [
        tf.constant(VALUES, "bfloat16"),
        np.array(VALUES, ml_dtypes.bfloat16),
        keras.Variable(VALUES, dtype="bfloat16"),
        np.array(VALUES, "float32"),
    ],
    ids=["tensor", "array", "variable", "float32"],
)
def test_values_in_bfloat16_become_float32(tensor):
    array = to_numpy(tensor)
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, VALUES)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "bool"])
def test_values_of_any_other_dtype_keep_it(dtype):
    assert to_numpy(tf.cast(VALUES, dtype)).dtype == dtype


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, "float32", True),
        (1, "int8", True),
        (1000, "int8", False),
        (1.0, "int32", False),
        (1e300, "float32", True),
        (True, "int32", True),
        (1, "bool", False),
    ],
)
def test_integers_convert_within_the_range_and_floats_to_floats(value, dtype, expected):
    assert can_convert(np.array([value]), np.dtype(dtype)) == expected


def test_bfloat16_is_a_float():
    assert kind_of(np.array(VALUES, ml_dtypes.bfloat16)) == "float"
    assert kind_of(np.array(["text"])) == "text"
    assert kind_of(np.array([None])) is None
