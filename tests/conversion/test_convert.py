"""`convert` and `to_keras` replace layers, and keep weights, names and compile settings."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm import convert, to_keras
from keras_norm.named_layers import named_layers
from tests import oracles
from tests.compat.pages import python_blocks
from tests.conversion.models import (
    FEATURES,
    TIME,
    MyLSTM,
    nested,
    randomize,
    sequences,
    sequential,
)

RECURRENT = {
    "LSTM": keras.layers.LSTM,
    "GRU": keras.layers.GRU,
    "GRU, one bias": lambda units, **options: keras.layers.GRU(units, reset_after=False, **options),
    "SimpleRNN": keras.layers.SimpleRNN,
}
PATHS = ["both/forward_lstm", "both/backward_lstm", "inner/gru", "inner/ln", "td/bn"]
PATHS += ["stack/cells/first", "stack/cells/second", "rnn", "last", "rms"]


def classes(model):
    return {path: type(layer) for path, layer in named_layers(model)}


def assert_equal_outputs(model, other):
    x = sequences()
    np.testing.assert_allclose(other(x), model(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer", RECURRENT.values(), ids=RECURRENT)
def test_without_a_norm_a_converted_layer_has_equal_outputs_also_with_a_bias_of_zero(layer):
    model = sequential(layer(4, return_sequences=True, go_backwards=True, name="rnn"))
    assert_equal_outputs(model, convert(model, None, verbose=False))
    *kernels, bias = model.get_layer("rnn").get_weights()
    model.get_layer("rnn").set_weights([*kernels, np.zeros_like(bias)])
    assert_equal_outputs(model, convert(model, None, verbose=False))


MASK_ENDS = "ignore:Layer .* was passed an input with a mask:UserWarning"


@pytest.mark.filterwarnings(MASK_ENDS)
def test_a_mask_ends_at_a_converted_rms_norm_as_in_keras(tmp_path):
    norm, lstm = keras.layers.RMSNormalization(name="rms"), keras.layers.LSTM(4)
    model = sequential(norm, lstm)
    converted = convert(model, None, verbose=False)
    assert_equal_outputs(model, converted)
    converted.save(tmp_path / "converted.keras")
    assert_equal_outputs(model, keras.saving.load_model(tmp_path / "converted.keras"))
    back = to_keras(converted, verbose=False)
    assert type(back.get_layer("rms")) is keras.layers.RMSNormalization
    assert_equal_outputs(model, back)


@pytest.mark.filterwarnings("error:__array__:DeprecationWarning")
def test_to_keras_is_the_inverse_of_a_conversion_without_a_norm_in_every_container():
    model = nested()
    converted = convert(model, None, verbose=False)
    assert_equal_outputs(model, converted)
    found = classes(converted)
    assert all(found[path].__module__.startswith("keras_norm.") for path in PATHS)
    back = to_keras(converted, verbose=False)
    assert_equal_outputs(model, back)
    found = classes(back)
    assert all(found[path].__module__.startswith("keras.") for path in PATHS)
    assert found["rnn"] is keras.layers.SimpleRNN


def test_a_converted_lstm_computes_layer_normalization_with_the_trained_kernels():
    model = sequential(keras.layers.LSTM(4, return_sequences=True, name="lstm"))
    converted = convert(model, "layer", verbose=False)
    assert type(converted.get_layer("lstm")) is keras_norm.LayerNormLSTM
    kernel, recurrent_kernel, bias = model.get_layer("lstm").get_weights()
    h = c = np.zeros((1, 4))
    for x in sequences()[:1].swapaxes(0, 1):
        u = oracles.layer_norm(h @ recurrent_kernel, epsilon=1e-5)
        z = oracles.layer_norm(x @ kernel, epsilon=1e-5) + u + bias
        i, f, g, o = np.split(z, 4, axis=-1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(oracles.layer_norm(c, epsilon=1e-5))
    np.testing.assert_allclose(converted(sequences())[0, -1], h[0], rtol=0, atol=1e-5)


def test_the_second_bias_of_a_gru_is_kept_in_the_bias_and_in_a_beta():
    model = sequential(keras.layers.GRU(2, name="gru"))
    (x_bias, h_bias) = model.get_layer("gru").get_weights()[2]
    cell = convert(model, "layer", verbose=False).get_layer("gru").cell
    joined = x_bias + np.where(np.arange(6) < 4, h_bias, 0.0)
    np.testing.assert_allclose(cell.bias, joined, rtol=1e-6)
    np.testing.assert_array_equal(cell.recurrent_candidate_norm.beta, h_bias[4:])


def test_an_untrained_layer_trains_on_sequences_that_begin_with_zeros():
    """With a norm and a candidate bias of zeros, the gradient would overflow at zeros."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((24, FEATURES))
    branches = [RECURRENT[name](4)(inputs) for name in ("LSTM", "GRU", "SimpleRNN")]
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()(branches))
    model = keras.Model(inputs, outputs)
    converted = convert(model, "layer", verbose=False)
    x = np.random.default_rng(2).normal(size=(4, 24, FEATURES)).astype("float32")
    x[:, :20] = 0.0
    converted.compile(keras.optimizers.SGD(1e-6), "mse", run_eagerly=True)
    converted.fit(x, np.ones((4, 1)), verbose=0)
    assert all(np.isfinite(weight).all() for weight in converted.get_weights())


@pytest.mark.parametrize(
    ("norm", "options", "name"),
    [
        ("rms", {}, "NormLSTM"),
        ("batch", {"max_timesteps": 3}, "BatchNormLSTM"),
        ({"state_norm": keras_norm.RMSNormalization()}, {}, "NormLSTM"),
    ],
    ids=str,
)
def test_a_converted_model_has_the_norm_and_trains(norm, options, name):
    model = sequential(keras.layers.LSTM(4, name="lstm"), keras.layers.Dense(1))
    model.compile("sgd", "mse", run_eagerly=True)
    converted = convert(model, norm, verbose=False, **options)
    assert type(converted.get_layer("lstm")).__name__ == name
    losses = converted.fit(sequences(), np.ones((4, 1)), epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0]


def test_the_static_length_is_the_number_of_timesteps_with_statistics():
    inputs, state = keras.Input((7, 4)), keras.Input((2,))
    sequence = keras.layers.GRU(2, return_sequences=True, name="gru")(inputs)
    with_state = keras.layers.GRU(2, name="with_state")(sequence, initial_state=state)
    converted = convert(keras.Model([inputs, state], with_state), "batch", verbose=False)
    layers = [converted.get_layer(name) for name in ("gru", "with_state")]
    assert [layer.max_timesteps for layer in layers] == [7, 7]


@pytest.mark.parametrize("norm", [None, "layer"])
def test_frozen_cells_and_directions_stay_frozen(norm):
    both = keras.layers.Bidirectional(
        keras.layers.LSTM(3, return_sequences=True, name="lstm"), name="both"
    )
    model = sequential(both, keras.layers.RNN(keras.layers.GRUCell(2), name="gru"))
    both.forward_layer.trainable = False
    model.get_layer("gru").cell.trainable = False
    converted = convert(model, norm, verbose=False)
    assert converted.get_layer("both").trainable
    assert not converted.get_layer("both").forward_layer.cell.trainable
    assert len(converted.get_layer("both").backward_layer.trainable_weights) >= 3
    assert converted.get_layer("gru").trainable
    assert not converted.get_layer("gru").trainable_weights
    if norm is None:
        back = to_keras(converted, verbose=False)
        assert len(back.trainable_weights) == len(model.trainable_weights) == 3


def test_the_states_of_stateful_layers_are_kept():
    layers = [
        keras.layers.GRU(3, stateful=True, return_sequences=True),
        MyLSTM(2, stateful=True),
    ]
    model = randomize(keras.Sequential([keras.Input((TIME, FEATURES), batch_size=4), *layers]))
    model(sequences())
    converted = convert(model, None, where=keras.layers.GRU, verbose=False)
    back = to_keras(converted, verbose=False)
    expected = model(sequences())
    for other in (converted, back):
        np.testing.assert_allclose(other(sequences()), expected, rtol=0, atol=1e-6)


def test_names_compile_settings_and_trainable_are_kept():
    model = sequential(keras.layers.LSTM(4, name="lstm"), keras.layers.Dense(1, name="head"))
    model.get_layer("lstm").trainable = False
    model.compile(keras.optimizers.SGD(0.05), "mae", metrics=["mse"])
    converted = convert(model, verbose=False)
    assert [layer.name for layer in converted.layers] == [layer.name for layer in model.layers]
    assert not converted.get_layer("lstm").trainable
    assert float(converted.optimizer.learning_rate) == pytest.approx(0.05)
    assert converted.get_compile_config()["loss"] == "mae"


def test_the_original_model_is_unchanged():
    model = nested()
    before = sequences(), np.asarray(model(sequences())), classes(model)
    convert(model, "layer", verbose=False)
    np.testing.assert_array_equal(model(before[0]), before[1])
    assert classes(model) == before[2]


@pytest.mark.parametrize(
    ("where", "paths"),
    [
        ("gru", ["inner/gru"]),
        ("inner/gru", ["inner/gru"]),
        ("inner", ["inner/gru", "inner/ln"]),
        ("both", ["both/forward_lstm", "both/backward_lstm"]),
        (keras.layers.GRU, ["inner/gru", "last"]),
        (
            lambda layer: getattr(layer, "units", 0) == 4,
            ["both/forward_lstm", "both/backward_lstm"],
        ),
        (["rnn", keras.layers.LayerNormalization], ["inner/ln", "rnn"]),
    ],
    ids=["name", "path", "model", "wrapper", "class", "function", "list"],
)
def test_where_selects_layers(where, paths):
    found = classes(convert(nested(), None, where, verbose=False))
    converted = [path for path in PATHS if found[path].__module__.startswith("keras_norm.")]
    assert converted == paths


def test_a_layer_of_a_user_is_not_converted():
    model = sequential(
        MyLSTM(3, return_sequences=True, name="mine"), keras.layers.GRU(2, name="gru")
    )
    found = classes(convert(model, verbose=False))
    assert found["mine"] is MyLSTM
    assert found["gru"] is keras_norm.LayerNormGRU


def test_to_keras_keeps_layers_that_keras_does_not_have():
    ours = [
        keras_norm.LayerNormGRU(3, return_sequences=True),
        keras_norm.NormGRU(3, norm_form="joint", return_sequences=True),
        keras_norm.NormLSTM(3, cell_zoneout=0.1, return_sequences=True),
        keras_norm.NormLSTM(3, projection_units=2, return_sequences=True),
        keras_norm.NormGRU(3, candidate_dropout=0.1, return_sequences=True),
        keras_norm.LayerNormalization(ddof=1),
        keras_norm.BatchNormalization(unbiased_variance=True),
        keras_norm.RMSNormalization(),  # passes a mask on, and Keras' layer does not
    ]
    theirs = [keras_norm.LayerNormalization()]
    model = sequential(*ours, *theirs, keras.layers.LSTM(2))
    found = [type(layer) for layer in to_keras(model, verbose=False).layers[1:-1]]
    assert found == [*map(type, ours), keras.layers.LayerNormalization]
    unmasked = keras.Sequential([keras.Input((TIME, FEATURES)), keras_norm.RMSNormalization()])
    assert type(to_keras(unmasked, verbose=False).layers[0]) is keras.layers.RMSNormalization


def test_a_table_lists_the_converted_layers_and_new_norms_lower_the_accuracy(capsys):
    layers = keras.layers.LSTM(4, name="lstm"), keras.layers.LayerNormalization(name="norm")
    model = sequential(*layers)
    convert(model, "layer", "lstm")
    *table, last = capsys.readouterr().out.splitlines()
    assert [line.split() for line in table] == [
        ["layer", "keras.layers", "keras_norm"],
        ["lstm", "LSTM", "LayerNormLSTM"],
    ]
    assert last == "The norms change the outputs: accuracy drops until you train the new model."
    convert(model, None, "lstm")
    convert(model, "layer", "norm")
    assert "accuracy" not in capsys.readouterr().out


@pytest.fixture
def encoder_of_the_page():
    """Return the class in docs/guides/from_keras.md whose constructor takes the layer."""
    block = python_blocks("from_keras.md")[-1]
    names = {"keras": keras, "__name__": __name__}
    exec(compile(block, "the page", "exec"), names)
    yield names["Encoder"]
    keras.saving.get_custom_objects().pop("Custom>Encoder")


def test_a_layer_that_the_constructor_takes_is_converted_and_saved(encoder_of_the_page, tmp_path):
    inputs = keras.Input((TIME, FEATURES))
    model = keras.Sequential([inputs, encoder_of_the_page(name="encoder")])
    converted = convert(model, verbose=False)
    assert type(converted.get_layer("encoder").lstm) is keras_norm.LayerNormLSTM
    converted.save(tmp_path / "converted.keras")
    loaded = keras.saving.load_model(tmp_path / "converted.keras")
    x = np.random.default_rng(0).normal(size=(3, TIME, FEATURES)).astype("float32")
    np.testing.assert_array_equal(loaded(x), converted(x))


def test_a_config_from_before_the_constructor_took_the_layer_loads(encoder_of_the_page):
    layer = encoder_of_the_page.from_config({"name": "encoder"})
    assert type(layer.lstm) is keras.layers.LSTM
