"""How many layers and timesteps values pass through."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.export.comparing.depth import layers_in_series, timesteps_of


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


def inputs_of(**lengths):
    return {name: np.zeros((2, length, 3)) for name, length in lengths.items()}


@pytest.mark.parametrize(
    ("layer", "timesteps"),
    [
        (keras.layers.Bidirectional(keras.layers.SimpleRNN(2)), 9),
        (stack(keras_norm.LayerNormGRU(2)), 9),
        (keras.layers.Dense(2), 1),
    ],
    ids=["in a wrapper", "in a model", "none"],
)
def test_timesteps_count_where_a_layer_is_recurrent(layer, timesteps):
    assert max(map(timesteps_of(stack(layer)), [inputs_of(x=4), inputs_of(x=9)])) == timesteps


def test_features_are_no_timesteps():
    words, features = keras.Input((None, 3), name="words"), keras.Input((50,), name="features")
    joined = keras.layers.Concatenate()([keras_norm.LayerNormLSTM(2)(words), features])
    model = keras.Model([words, features], keras.layers.Dense(2)(keras.ops.tanh(joined)))
    cases = [{"words": np.zeros((2, 7, 3)), "features": np.zeros((2, 50))}]
    assert max(map(timesteps_of(model), cases)) == 7


def test_timesteps_that_the_model_fixes_are_its_own():
    pixels = keras.Input((784,), name="pixels")
    rows = keras.layers.Reshape((28, 28))(pixels)
    model = keras.Model(pixels, keras.layers.SimpleRNN(2)(rows))
    assert max(map(timesteps_of(model), [{"pixels": np.zeros((2, 784))}])) == 28


def test_timesteps_that_no_input_has_are_one():
    tokens = keras.layers.TextVectorization(vocabulary=["a", "b"])
    text = keras.Input((), dtype="string", name="text")
    words = keras.layers.Embedding(5, 3)(tokens(text))
    model = keras.Model(text, keras.layers.SimpleRNN(2)(words))
    assert max(map(timesteps_of(model), [{"text": np.array(["a b", "b"], object)}])) == 1


@pytest.mark.parametrize("time", [None, 6], ids=["open", "fixed"])
def test_timesteps_that_cannot_be_told_are_those_of_the_longest_input(time):
    rows = keras.layers.TimeDistributed(keras.layers.SimpleRNN(2))
    model = keras.Sequential([keras.Input((time, 4, 3), name="x"), rows])
    assert max(map(timesteps_of(model), [{"x": np.zeros((2, 6, 4, 3))}])) == 6
