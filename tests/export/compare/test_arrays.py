"""The dtypes of arrays, and texts as bytes objects."""

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.compare.arrays import (
    can_convert,
    kind_of,
    numpy_dtype,
    to_bytes,
    to_numpy,
)

VALUES = [[1.5, -0.25, 3.0]]
WORDS = ["é", "", "tea"]


def test_float32_takes_the_place_of_bfloat16():
    assert numpy_dtype("bfloat16") == np.float32
    assert numpy_dtype("float16") == np.float16


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


@pytest.mark.parametrize(
    "texts",
    [
        WORDS,
        np.array(WORDS),
        np.array(WORDS, object),
        np.array([word.encode() for word in WORDS]),
        np.array(WORDS, np.dtypes.StringDType()),
        tf.constant(WORDS),
    ],
    ids=["list", "str", "objects", "bytes", "StringDType", "tensor"],
)
def test_every_kind_of_texts_becomes_bytes_in_utf_8(texts):
    assert to_bytes(texts).tolist() == [b"\xc3\xa9", b"", b"tea"]


def test_bytes_that_are_not_utf_8_do_not_change():
    assert to_bytes([b"\xff\x00\xfe"]).tolist() == [b"\xff\x00\xfe"]
