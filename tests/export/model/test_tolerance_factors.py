"""The precision of a model, its depth in layers and its timesteps."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_norm
from keras_norm.export.model.tolerance_factors import layer_depth, model_precision, timestep_counter
from tests.export import models


def test_layers_without_weights_add_no_depth():
    dense, norm = keras.layers.Dense(4), keras_norm.LayerNormalization()
    assert layer_depth(models.stack(dense, keras.layers.Dropout(0.5), norm)) == 2


def test_the_depth_of_branches_is_that_of_the_longest_path():
    inputs = keras.Input((3,))
    long = keras.layers.Dense(3)(keras.layers.Dense(3)(inputs))
    outputs = keras.layers.Dense(3)(keras.layers.Add()([long, keras.layers.Dense(3)(inputs)]))
    assert layer_depth(keras.Model(inputs, outputs)) == 3


def test_the_layers_of_a_nested_model_count():
    inner = models.stack(keras.layers.Dense(3), keras.layers.Dense(3))
    assert layer_depth(models.stack(inner, keras.layers.Dense(2))) == 3


def test_a_model_deeper_than_the_recursion_limit_has_a_depth():
    x = inputs = keras.Input((1,))
    scale = keras.layers.Rescaling(1.0)
    for _ in range(600):
        x = scale(x)
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    assert layer_depth(model) == 1


def inputs_of(**lengths):
    return {name: np.ones((2, length, 3)) for name, length in lengths.items()}


def test_features_are_not_counted_as_timesteps():
    words, features = keras.Input((None, 3), name="words"), keras.Input((50,), name="features")
    joined = keras.layers.Concatenate()([keras_norm.LayerNormLSTM(2)(words), features])
    model = keras.Model([words, features], keras.layers.Dense(2)(keras.ops.tanh(joined)))
    cases = [{"words": np.zeros((2, 7, 3)), "features": np.zeros((2, 50))}]
    assert max(map(timestep_counter(model), cases)) == 7


def test_static_timesteps_are_those_of_the_model():
    pixels = keras.Input((784,), name="pixels")
    rows = keras.layers.Reshape((28, 28))(pixels)
    model = keras.Model(pixels, keras.layers.SimpleRNN(2)(rows))
    assert max(map(timestep_counter(model), [{"pixels": np.zeros((2, 784))}])) == 28


def test_words_of_texts_are_timesteps():
    tokens = keras.layers.TextVectorization(vocabulary=["a", "b"])
    text = keras.Input((), dtype="string", name="text")
    words = keras.layers.Embedding(5, 3)(tokens(text))
    model = keras.Model(text, keras.layers.SimpleRNN(2)(words))
    assert max(map(timestep_counter(model), [{"text": np.array(["a b", "b"], object)}])) == 2


@pytest.mark.parametrize("time", [None, 6], ids=["open", "fixed"])
def test_rows_of_time_distributed_are_not_timesteps(time):
    rows = keras.layers.TimeDistributed(keras.layers.SimpleRNN(2))
    model = models.stack(rows, shape=(time, 4, 3))
    assert max(map(timestep_counter(model), [{"x": np.zeros((2, 6, 4, 3))}])) == 4


@keras.saving.register_keras_serializable(package="tests")
class Encoder(keras.layers.Layer):
    """A layer that contains a convolution and a recurrent layer."""

    def build(self, shape):
        self.convolved = keras.layers.Conv1D(4, 8, strides=4)
        self.recurrent = keras.layers.GRU(4, return_sequences=True, return_state=True)
        self.convolved.build(shape)
        self.recurrent.build((None, None, 4))

    def call(self, x):
        y, state = self.recurrent(self.convolved(x))
        return y + state[:, None]


@keras.saving.register_keras_serializable(package="tests")
class Voiced(keras.layers.Layer):
    """Returns the timesteps that are not zero; the shapes do not determine their number."""

    def call(self, x):
        kept = tf.boolean_mask(x, tf.reduce_any(x != 0, axis=(0, 2)), axis=1)
        return tf.ensure_shape(kept, (None, None, 3))


LSTM = keras.layers.LSTM(2, return_sequences=True)


COUNTED = {
    "strides": ([keras.layers.Conv1D(4, 512, strides=256), LSTM], 95),
    "same padding": ([keras.layers.Conv1D(4, 512, strides=256, padding="same"), LSTM], 96),
    "pooling": ([keras.layers.MaxPooling1D(8), keras.layers.Bidirectional(LSTM)], 3_072),
    "upsampling": ([keras.layers.UpSampling1D(2), LSTM], 49_152),
    "padding": ([keras.layers.ZeroPadding1D(10), LSTM], 24_596),
    "nested": (
        [keras.layers.Conv1D(3, 4, strides=4), models.stack(keras_norm.LayerNormLSTM(2))],
        6_144,
    ),
    "two recurrences": ([LSTM, keras.layers.MaxPooling1D(2), keras.layers.GRU(2)], 24_576),
    "custom layer": ([Encoder()], 6_143),
    "time distributed": ([keras.layers.TimeDistributed(keras.layers.Dense(2)), LSTM], 24_576),
    "unknown": ([Voiced(), LSTM], 24_576),
    "no recurrence": ([keras.layers.Dense(2)], 1),
}


@pytest.mark.parametrize(("layers", "timesteps"), COUNTED.values(), ids=COUNTED)
def test_timesteps_are_counted_at_the_recurrent_layer(layers, timesteps):
    model = models.stack(*(layer.__class__.from_config(layer.get_config()) for layer in layers))
    assert timestep_counter(model)(inputs_of(x=24_576)) == timesteps


def test_a_length_that_the_model_cannot_run_counts_in_full():
    model = models.stack(keras.layers.Conv1D(4, 512), keras.layers.SimpleRNN(2))
    assert timestep_counter(model)(inputs_of(x=100)) == 100


# Precision ---------------------------------------------------------------------------------------


def test_a_model_has_the_precision_of_its_coarsest_layer():
    inputs = keras.Input((3,))
    h = keras.layers.Dense(2, dtype="mixed_bfloat16")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, dtype="float32")(h))
    assert model_precision(model, {"y": np.zeros(2, "float32")}) == "bfloat16"


def test_8_bit_ids_and_classes_are_not_quantized_weights():
    ids = keras.Input((4,), dtype="int8", name="ids")
    h = keras.layers.Embedding(5, 3)(ids)
    model = keras.Model(ids, {"y": h, "kind": keras.ops.cast(h[:, 0, 0] > 0, "int8")})
    assert model_precision(model, {"kind": np.zeros(2, "int8")}) == "float32"


@pytest.fixture
def float64():
    """Layers compute in float64."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("received", ["float32", "float64"])
def test_a_layer_without_autocast_computes_in_the_dtype_of_its_input(received):
    model = models.of(keras.layers.LayerNormalization(), (3,), dtype=received)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(received)
    y = np.array(model(x))
    wide = x.astype("float64")
    deviation = np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-3)
    error = np.abs(y - (wide - wide.mean(axis=-1, keepdims=True)) / deviation).max()
    assert (error < 1e-14) == (received == "float64")
    assert y.dtype == "float64"
    assert model_precision(model, {"y": y}) == received
