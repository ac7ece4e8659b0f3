import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export.comparing.compare import TOLERANCES
from keras_norm.export.comparing.rounding import (
    default_share,
    is_recurrent,
    layers_in_series,
    rounding,
)
from keras_norm.export.runners import KerasRunner


def stack(*layers):
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((None, 3), name="x"), *layers])


@pytest.mark.parametrize("precision", TOLERANCES)
def test_a_shallow_model_has_the_tolerance_of_its_precision(precision):
    assert default_share(precision, layers=2, timesteps=16) == TOLERANCES[precision]


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_tolerance_grows_with_layers_and_the_root_of_time(precision):
    share = default_share(precision, layers=8, timesteps=400)
    assert share == pytest.approx(16 * TOLERANCES[precision])


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])
def test_coarse_numbers_are_off_by_their_own_rounding_whatever_the_depth(precision):
    assert default_share(precision, layers=8, timesteps=400) == TOLERANCES[precision]


def test_layers_without_weights_add_no_depth():
    dense, norm = keras.layers.Dense(4), keras_norm.LayerNormalization()
    assert layers_in_series(stack(dense, keras.layers.Dropout(0.5), norm)) == 2


def test_the_longest_way_through_branches_counts():
    inputs = keras.Input((3,))
    long = keras.layers.Dense(3)(keras.layers.Dense(3)(inputs))
    outputs = keras.layers.Dense(3)(keras.layers.Add()([long, keras.layers.Dense(3)(inputs)]))
    assert layers_in_series(keras.Model(inputs, outputs)) == 3


def test_a_nested_model_counts_as_its_layers():
    inner = stack(keras.layers.Dense(3), keras.layers.Dense(3))
    assert layers_in_series(stack(inner, keras.layers.Dense(2))) == 3


def test_a_recurrence_inside_a_wrapper_is_one():
    assert is_recurrent(stack(keras.layers.Bidirectional(keras.layers.SimpleRNN(2))))
    assert not is_recurrent(stack(keras.layers.Dense(2)))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: keras_norm.BatchNormSimpleRNN(4, max_timesteps=8, return_sequences=True),
        lambda: keras.layers.Bidirectional(keras.layers.SimpleRNN(4, return_sequences=True)),
        lambda: keras.layers.Dense(4, dtype="mixed_float16"),
    ],
    ids=["BatchNormSimpleRNN", "Bidirectional", "mixed_float16"],
)
def test_the_floor_is_the_distance_from_float64(layer):
    model = stack(layer(), keras.layers.Dense(2, dtype="float32", name="y"))
    x = np.random.default_rng(0).normal(size=(4, 7, 3)).astype("float32")
    expected = KerasRunner(model)({"x": x})
    floor = rounding(model, {"x": x}, expected)
    share = floor["y"] / np.abs(expected["y"]).max()
    half = any("16" in inner.compute_dtype for inner in model.layers)
    assert (1e-5 < share < 1e-2) if half else (1e-9 < share < 1e-6)


def test_the_layers_of_a_model_deeper_than_pythons_stack_are_counted():
    x = inputs = keras.Input((1,))
    scale = keras.layers.Rescaling(1.0)
    for _ in range(600):
        x = scale(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    assert layers_in_series(model) == 1
