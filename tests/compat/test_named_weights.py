"""Dtypes and values that do not fit are refused; see test_refused_weights.py too."""

import keras
import ml_dtypes
import numpy as np
import pytest

import keras_norm
from keras_norm.compat.named_weights import Assignment, assign_weights, named_entries, to_array


@pytest.fixture
def dense():
    layer = keras.layers.Dense(3, name="head")
    layer.build((None, 2))
    return layer


def assignments(layer):
    return [
        Assignment(layer.kernel, {"head.weight": (3, 2)}, np.transpose),
        Assignment(layer.bias, {"head.b1": (3,), "head.b2": (3,)}, np.add),
    ]


def entries(**changes):
    rng = np.random.default_rng(0)
    given = {"head.weight": rng.normal(size=(3, 2)), "head.b1": np.ones(3), "head.b2": np.ones(3)}
    return {name: a for name, a in (given | changes).items() if a is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head.b1": None, "x": 1}, r"Missing entries: head\.b1\. Entries without a layer: x\."),
        ({f"x{k}": 1 for k in range(10)}, r"x7 and 2 more"),
        (
            {"head.b2": [1.0, None, 2.0]},
            r"'head\.b2' must be an array of floating-point numbers\. .* object\. Check",
        ),
        ({"head.b2": np.array(["1", "2", "3"])}, r"'head\.b2' must be .* Received dtype str32\."),
        ({"head.b2": [[1.0], [2.0, 3.0]]}, r"'head\.b2' is not an array: "),
        ({"head.b2": np.ones(3, "int8")}, r"'head\.b2' .* dtype int8\. .* before it was quantized"),
        ({"head.b2": np.ones(3, "int64")}, r"dtype int64\. .* entry\.astype\('float32'\)"),
        ({"head.b2": np.ones(3, bool)}, r"Received dtype bool\."),
        ({"head.b2": np.ones(3, ml_dtypes.float8_e4m3fn)}, r"Received dtype float8_e4m3fn\."),
        (
            {"head.b2": np.array([1.0, np.nan, np.inf])},
            r"'head\.b2' has NaN or infinite values: 2 of 3",
        ),
        (
            {"head.b2": np.array([1.0, 1e300, 0.0])},
            r"'head\.b2' has values that do not fit float32: 1 of 3",
        ),
    ],
)
def test_entries_that_do_not_fit_are_named_and_no_variable_changes(changes, message, dense):
    before = dense.get_weights()
    with pytest.raises(ValueError, match=message) as refusal:
        assign_weights(assignments(dense), named_entries(entries(**changes), "."), "PyTorch")
    assert "\n" not in str(refusal.value)
    for old, new in zip(before, dense.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_sums_and_variables_of_float16_may_overflow():
    layer = keras.layers.Dense(3, name="head", dtype="float16")
    layer.build((None, 2))
    with pytest.raises(ValueError, match=r"'head\.b1' has values that do not fit float16: 3 of 3"):
        assign_weights(assignments(layer), entries(**{"head.b1": np.full(3, 1e5)}), "PyTorch")
    large = {"head.b1": np.full(3, 4e4), "head.b2": np.full(3, 4e4)}
    with pytest.raises(ValueError, match=r"'head\.b1, head\.b2' has values that do not fit"):
        assign_weights(assignments(layer), entries(**large), "PyTorch")


def test_a_negative_variance_is_refused():
    layer = keras.layers.BatchNormalization()
    layer.build((None, 2))
    assignment = Assignment(layer.moving_variance, {"var": (2,)})
    with pytest.raises(ValueError, match=r"'var' has negative values, and it is a variance"):
        assign_weights([assignment], {"var": np.array([1.0, -1.0])}, "PyTorch")


def test_an_integer_variable_takes_integers():
    layer = keras_norm.BatchNormalization(debias=True)
    layer.build((None, 2))
    assign_weights([Assignment(layer.update_count, {"n": ()})], {"n": np.array(7)}, "PyTorch")
    assert int(layer.update_count) == 7
    for wrong in (2**40, 3.7):
        with pytest.raises(ValueError, match=r"'n' has values that do not fit int32: 1 of 1"):
            assign_weights([Assignment(layer.update_count, {"n": ()})], {"n": wrong}, "PyTorch")


def test_a_prefix_without_entries_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match=r"prefix 'decoder'\. Received the entries: encoder\.w"):
        named_entries({"encoder": {"w": 1.0}}, ".", "decoder")


def test_weights_that_are_neither_a_dict_nor_a_file_are_refused():
    with pytest.raises(TypeError, match=r"must be a dict of arrays.*Received: list"):
        named_entries([1.0], ".")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float64", "float64"), ("float16", "float32"), (ml_dtypes.bfloat16, "float32")],
)
def test_half_precision_becomes_float32(dtype, expected):
    assert to_array(np.ones(2, dtype)).dtype == expected


class FakeTensor:
    """The methods of a PyTorch tensor on a GPU, in bfloat16, which NumPy does not have."""

    dtype = "torch.bfloat16"
    shape = (2,)

    def __init__(self, *calls):
        self.calls = calls

    def detach(self):
        return FakeTensor(*self.calls, "detach")

    def cpu(self):
        return FakeTensor(*self.calls, "cpu")

    def float(self):
        return FakeTensor(*self.calls, "float")

    def __array__(self, dtype=None, copy=None):
        assert self.calls == ("detach", "cpu", "float")
        return np.array([1.0, 2.0])


def test_a_tensor_of_pytorch_is_copied_to_the_cpu_and_becomes_a_float():
    np.testing.assert_array_equal(to_array(FakeTensor()), [1.0, 2.0])
