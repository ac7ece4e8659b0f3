"""The search for the first layer with wrong outputs, with verdicts by the name of the layer."""

import keras
import numpy as np
import pytest

from keras_norm.export.model.first_layer import find_first_layer


def nested():
    """Return a model a -> inner(b -> c -> c) -> d, with a layer z whose outputs are zeros."""
    x = keras.Input((3,), name="x")
    c = keras.layers.Dense(3, name="c")
    inner_input = keras.Input((3,))
    b = keras.layers.Dense(3, name="b")(inner_input)
    inner = keras.Model(inner_input, c(c(b)), name="inner")
    h = keras.layers.Rescaling(0.0, name="z")(keras.layers.Dense(3, name="a")(x)) + x
    return keras.Model(x, keras.layers.Dense(3, name="d")(inner(h)))


@pytest.mark.parametrize(
    ("wrong", "right", "first"),
    [
        ({"a", "z"}, set(), "a"),
        ({"z"}, set(), None),
        ({"inner", "inner/c"}, {"inner/b"}, "inner/c"),
        ({"inner", "inner/c (2)"}, {"inner/c"}, "inner/c (2)"),
        ({"inner", "inner/b", "inner/c (2)"}, {"inner/c"}, "inner/c (2)"),
        ({"inner"}, {"inner/b"}, "inner"),
        ({"a", "inner", "inner/b"}, {"d"}, None),
        (set(), set(), None),
    ],
    ids=[
        "a layer",
        "zeros are skipped",
        "inside a nested model",
        "the second call",
        "before a right layer",
        "a nested model without a wrong layer",
        "right at the end",
        "all unknown",
    ],
)
def test_the_first_wrong_layer_after_the_last_right_layer_is_named(wrong, right, first):
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")

    def is_right(path, outputs):
        assert all(output.shape == (4, 3) for output in outputs)
        return False if path in wrong else True if path in right else None

    tensors = [keras.ops.convert_to_tensor(x)]
    assert find_first_layer(nested(), tensors, is_right) == first
