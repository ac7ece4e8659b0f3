"""How many layers and timesteps values pass through."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export.comparing.depth import layers_in_series, timesteps_run


def stack(*layers):
    return keras.Sequential([keras.Input((None, 3), name="x"), *layers])


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


def test_the_layers_of_a_model_deeper_than_pythons_stack_are_counted():
    x = inputs = keras.Input((1,))
    scale = keras.layers.Rescaling(1.0)
    for _ in range(600):
        x = scale(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    assert layers_in_series(model) == 1


@pytest.mark.parametrize(
    ("layer", "timesteps"),
    [(keras.layers.Bidirectional(keras.layers.SimpleRNN(2)), 9), (keras.layers.Dense(2), 1)],
    ids=["in a wrapper", "none"],
)
def test_timesteps_count_where_a_layer_is_recurrent(layer, timesteps):
    cases = [{"x": np.zeros((2, length, 3)), "y": np.zeros(2)} for length in (4, 9)]
    assert timesteps_run(stack(layer), cases) == timesteps
