"""Data for recalibration: supported arrays and iterables, and refused data."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from tests.keras_version import needs_keras
from tests.recalibration.models import X, assert_has_statistics_of, assert_refused, model_of


class Batches(keras.utils.PyDataset):
    """A dataset that has a batch for every index."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[30 * index : 30 * index + 30], np.zeros(30)


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, index):
        return X


@pytest.mark.parametrize(
    ("data", "batches"),
    [
        ([(X[:30],), (X[30:60],)], 2),
        ([(X[:30], np.zeros(30)), (X[30:60], np.zeros(30))], 2),
        ([X[:0], X[:40], X[:0], X[40:60]], 2),
        (tf.data.Dataset.from_tensor_slices(X[:60]).batch(37), 2),
        (Batches(), 2),
        (tf.constant(X[:60]), 2),
        (keras.Variable(X[:60]), 2),
        (X[:60], 2),
    ],
    ids=[
        "inputs",
        "targets",
        "empty batches",
        "tf.data",
        "PyDataset",
        "tensor",
        "variable",
        "array",
    ],
)
def test_arrays_and_iterables_of_batches_are_data(data, batches):
    layer = keras.layers.BatchNormalization()
    assert keras_norm.recalibrate(model_of(layer), data) == batches
    assert_has_statistics_of(layer, X[:60])


def two_input_model(structure):
    """Make a model of the inputs a and b, in a list, a dict or both, with a batch normalization."""
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    outputs = keras_norm.BatchNormalization()(keras.layers.add([a, b]))
    inputs = {"list": [a, b], "dict": {"a": a, "b": b}, "nested": {"p": [a], "q": {"r": b}}}
    return keras.Model(inputs[structure], outputs)


@pytest.mark.parametrize(
    ("structure", "data"),
    [
        ("list", [tf.constant(X), 2 * X]),
        ("dict", {"a": X, "b": 2 * X}),
        ("nested", {"p": [X], "q": {"r": 2 * X}}),
    ],
)
def test_the_arrays_of_all_inputs_are_split_together(structure, data):
    model = two_input_model(structure)
    assert keras_norm.recalibrate(model, data) == 3
    assert_has_statistics_of(model.layers[-1], 3 * X)


def test_steps_limits_the_batches():
    layer = keras_norm.BatchNormalization()
    assert keras_norm.recalibrate(model_of(layer), X, steps=1) == 1
    assert_has_statistics_of(layer, X[:32])


def test_data_for_a_stateful_model_are_split_into_batches_of_its_batch_size():
    layer = keras_norm.BatchNormalization()
    rows = keras.layers.Reshape((1, 4))
    inputs = keras.Input(batch_shape=(16, 4))
    hidden = keras.layers.SimpleRNN(2, stateful=True)(rows(layer(inputs)))
    model = keras.Model(inputs, hidden)
    assert keras_norm.recalibrate(model, X) == 4
    assert_has_statistics_of(layer, X[:64])
    assert_refused(model, X, "needs batches of 16 rows. Received: batch_size=8", batch_size=8)


def test_the_first_batch_size_of_a_sequential_model_does_not_limit_recalibration():
    layer = keras_norm.BatchNormalization()
    model = keras.Sequential([layer])
    model(X[:48])
    assert keras_norm.recalibrate(model, X) == 3
    assert_has_statistics_of(layer, X)


@needs_keras(3, 13, "None as an input in a dict")
def test_an_optional_input_may_be_none():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b", optional=True)

    class AddIfGiven(keras.layers.Layer):
        def call(self, a, b=None):
            return a if b is None else a + b

    layer = keras_norm.BatchNormalization()
    model = keras.Model({"a": a, "b": b}, layer(AddIfGiven()(a, b)))
    assert keras_norm.recalibrate(model, {"a": X, "b": None}) == 3
    assert_has_statistics_of(layer, X)


# Refusals ---------------------------------------------------------------------------------------


# Data that a model of one input (4,) cannot use, the type of the error and its message.
UNUSABLE = {
    "number": (3, TypeError, r"or an iterable of batches\. Received: 3\."),
    "file name": ("data.npz", TypeError, r"Received: 'data\.npz'\."),
    "class": (Endless, TypeError, r"Received: <class .*Endless'>\."),
    "empty dict": (
        {},
        ValueError,
        r"array of shape \(samples, \.\.\.\)\. Received: data of shape \(\)",
    ),
    "dict of lists": ({"x": X.tolist()}, ValueError, r"data\['x'\]\[0\]\[0\] of shape \(\)"),
    "no features": (X[:, :0], ValueError, r"Received: data of shape \(70, 0\)"),
    "numbers": ([1.0, 2.0], ValueError, r"Received in batch 1: x of shape \(\)"),
    "lists of numbers": (
        X.tolist(),
        ValueError,
        r"\(x, y, sample_weight\).* Received a list of length 4 in batch 1",
    ),
    "four": ([(X,), (X,) * 4], ValueError, r"Received a tuple of length 4 in batch 2\.$"),
    "pair": ((X, X[:, 0]), ValueError, r"may be \(x, y\)"),
    "ragged": (tf.ragged.constant([[1.0], [2.0, 3.0]]), ValueError, "Ragged"),
    "sparse": (tf.sparse.from_dense(X), ValueError, "Received a SparseTensor"),
    "complex": (X + 1j, ValueError, "real numbers. Received dtype complex"),
    "masked": (np.ma.masked_greater(X, 0.0), ValueError, "mask of a NumPy masked array"),
    "dict": ({"x": X}, ValueError, r"Expected: .* Received: inputs=\{'x'"),
    "rank": (X[:, 0], ValueError, r"Expected shape \(None, 4\), .* shape \(32,\)$"),
    "strings": (X.astype(str), ValueError, "Cast string to float is not supported$"),
    "NaN": (np.where(X > 5.0, np.nan, X), ValueError, "on the data are NaN or infinite"),
    "overflow": (1e30 * X, ValueError, "on the data are NaN or infinite"),
    "no rows": (X[:0], ValueError, "The data contain no samples"),
    "no batches": ([], ValueError, "Give at least one"),
}


@pytest.fixture(scope="module")
def model():
    return keras.Sequential([keras.Input((4,)), keras_norm.BatchNormalization()])


@pytest.mark.parametrize(("data", "error", "message"), UNUSABLE.values(), ids=UNUSABLE)
@pytest.mark.usefixtures("traced")
def test_unusable_data_are_refused_in_one_line(model, data, error, message):
    assert_refused(model, data, message, error)


@pytest.mark.parametrize(
    ("structure", "data", "message"),
    [
        ("list", [X[:1], X], r"different numbers.*: 1 rows in data\[0\], 70 rows in data\[1\]\."),
        ("dict", {"a": X[:10], "b": X}, r"10 rows in data\['a'\], 70 rows in data\['b'\]"),
        (
            "nested",
            {"p": [X[:9]], "q": {"r": X}},
            r"9 rows in data\['p'\]\[0\], 70 .*\['q'\]\['r'\]",
        ),
        ("dict", [{"a": X, "b": X}, ({"a": X[:3], "b": X}, X)], r"in batch 2: 3 rows in x\['a'\]"),
        ("list", [((X[:3], X),)], r"in batch 1: 3 rows in x\[0\], 70 rows in x\[1\]"),
        ("dict", {"a": X, "z": X}, r'Missing data for input "b"\. .* keys \[\'a\', \'z\'\]'),
    ],
    ids=["list", "dict", "nested", "batches of dicts", "batches of tuples", "wrong names"],
)
def test_data_that_do_not_fit_the_inputs_are_refused(structure, data, message):
    assert_refused(two_input_model(structure), data, message)


@pytest.mark.parametrize(("batch_size", "batches"), [(None, 3), (1, 70), (64, 2), (1000, 1)])
def test_arrays_are_split_into_batches_of_batch_size(batch_size, batches):
    layer = keras_norm.BatchNormalization()
    assert keras_norm.recalibrate(model_of(layer), X, batch_size=batch_size) == batches
    assert_has_statistics_of(layer, X)


@pytest.mark.parametrize(
    ("data", "batch_size", "message"),
    [
        (X, 0, r"batch_size must be .* Received: batch_size=0\."),
        (X, 2.0, r"batch_size must be .* Received: batch_size=2\.0\."),
        ([X], 8, r"for arrays only.* batch_size=8 and a list\. Leave batch_size out"),
    ],
    ids=["zero", "float", "iterable"],
)
def test_a_wrong_batch_size_is_refused(model, data, batch_size, message):
    assert_refused(model, data, message, batch_size=batch_size)


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "3"])
def test_steps_below_1_or_of_another_type_are_refused(model, steps):
    assert_refused(model, X, rf"an int of 1 or more.*Received: steps={steps!r}\.", steps=steps)


@pytest.mark.parametrize("data", [X, [X[:32], X[32:64], X[64:]]], ids=["array", "batches"])
def test_data_that_end_before_steps_are_refused(model, data):
    message = r"ended after 3 batches\. Received: steps=20\. Give more data, or leave steps out"
    assert_refused(model, data, message, steps=20)
    assert keras_norm.recalibrate(model, data, steps=3) == 3


@pytest.mark.parametrize(
    "data",
    [Endless(), tf.data.Dataset.from_tensor_slices(X).batch(32).repeat()],
    ids=["PyDataset", "tf.data"],
)
def test_endless_data_need_steps(model, data):
    assert_refused(model, data, r"never end\. Received: steps=None\. Give the number")
    assert keras_norm.recalibrate(model, data, steps=4) == 4


def test_an_error_of_the_data_leaves_the_model_unchanged(model):
    def batches():
        yield X
        raise OSError("the disk is gone")

    assert_refused(model, batches(), "the disk is gone", OSError)


@pytest.mark.usefixtures("traced")
def test_an_id_beyond_the_embedding_is_refused_in_one_line():
    ids = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, 4)(ids)
    model = keras.Model(ids, keras_norm.BatchNormalization()(embedded))
    with pytest.raises(ValueError, match=r"cannot process the data: indices.* is not in \[0, 9\)$"):
        keras_norm.recalibrate(model, np.full((4, 5), 20))
