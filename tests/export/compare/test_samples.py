"""Validation of the data, and their batches."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_norm.export.compare.samples import read_samples
from keras_norm.export.input_names import TensorSpec


def spec(shape=(None, None, 3), dtype="float32", name="x"):
    return {name: TensorSpec(name, shape, dtype)}


def samples(count=10, length=4, shape=(None, None, 3)):
    data = np.random.default_rng(0).normal(size=(count, length, 3))
    return read_samples(spec(shape), data)


def test_data_may_have_the_names_of_the_keras_model():
    data = np.zeros((4, 2, 3), "float32")
    assert list(read_samples(spec(name="Text_in"), {"Text in": data}).arrays) == ["Text_in"]


def test_one_array_takes_the_name_and_the_dtype_of_the_only_input():
    ((name, array),) = samples(1).arrays.items()
    assert (name, array.dtype, len(array)) == ("x", "float32", 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"z": np.zeros((4, 2, 3))}, r"must be the model's inputs: 'x'\. Received: 'z'"),
        (np.zeros((4, 2, 5)), r"\(any, any, 3\). Received shape \(4, 2, 5\)"),
        (np.zeros((4, 3)), r"Received shape \(4, 3\)"),
        (np.zeros((0, 2, 3)), "contain 0 samples"),
        (np.zeros((4, 0, 3)), "at least one timestep"),
        (np.full((4, 2, 3), np.nan), "NaN"),
        (np.full((4, 2, 3), "a"), "takes float32"),
        ([[[1.0] * 3], [[1.0] * 3] * 2], "a list that NumPy cannot convert. Give an array; pad"),
        (None, "Received a NoneType that NumPy cannot convert. Give an array"),
        ((x for x in np.zeros((4, 2, 3))), "Received a generator that NumPy cannot convert"),
        (keras.Input((2, 3)), "Received a KerasTensor that NumPy cannot convert"),
        (tf.ragged.constant([[1.0], []]), "Received a RaggedTensor that NumPy cannot convert"),
        ("data.npz", "must be arrays. Received the path data.npz"),
        (pathlib.Path("data.npz"), "Received the path data.npz"),
    ],
)
def test_wrong_data_raise(data, message):
    with pytest.raises(ValueError, match=message):
        read_samples(spec(), data)


BOTH = {**spec(), **spec(name="z")}


@pytest.mark.parametrize(
    ("specs", "data", "message"),
    [
        (spec((None, None), "int32"), np.zeros((4, 2)), "takes int32. Received values of float64"),
        (spec((None, 3), "float16"), np.full((4, 3), 1e5), "that float16 cannot represent"),
        (BOTH, np.zeros((4, 2, 3)), "2 inputs"),
        (BOTH, {"x": np.zeros((4, 2, 3)), "z": np.zeros((5, 2, 3))}, "same number of samples"),
    ],
    ids=["floats", "out of range", "one array", "unequal"],
)
def test_data_that_do_not_fit_the_inputs_raise(specs, data, message):
    with pytest.raises(ValueError, match=message):
        read_samples(specs, data)


def test_all_samples_run_in_batches_once():
    batches = list(samples().batches(4))
    assert [rows for rows, _ in batches] == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert [row for _, case in batches for row in case.rows] == list(range(10))


def test_the_first_samples_fill_up_a_static_batch():
    (_, first), (rows, last) = samples(count=4, shape=(3, None, 3)).batches(32)
    assert (len(first.rows), rows, last.rows) == (3, slice(3, 4), (3, 0, 1))


def test_a_text_for_each_sample_fits_an_input_of_one_text():
    assert read_samples(spec((None, 1), "string"), ["a", "b"]).arrays["x"].shape == (2, 1)


@pytest.mark.parametrize("data", [["a", 1.0], np.zeros(2), [["a", "b"], ["c"]], ["a\0", "b"]])
def test_other_values_raise_for_an_input_of_texts(data):
    with pytest.raises(ValueError, match="Input 'x' takes texts: received"):
        read_samples(spec((None,), "string"), data)
