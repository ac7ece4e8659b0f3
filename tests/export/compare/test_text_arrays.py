"""Texts are converted to bytes objects."""

import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.compare.arrays import is_text, to_bytes

WORDS = ["é", "", "tea"]


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


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", 1], "received 1, which is not a text"),
        (["a", None], "received None, which is not a text"),
        ([["a", "b"], ["c"]], r"received \['a', 'b'\], which is not a text"),
        (["a\0"], "ends with a NUL character"),
    ],
)
def test_other_values_raise(texts, message):
    with pytest.raises(ValueError, match=message):
        to_bytes(texts)


@pytest.mark.parametrize("array", [np.array([1.0]), np.array(["a", 1], object)])
def test_numbers_and_mixed_objects_are_not_text(array):
    assert not is_text(array)
