"""A file of Keras layers has no weights for a normalized cell: the message names `convert`."""

import re
import warnings

import keras
import numpy as np
import pytest

import keras_norm


def build(layer):
    return keras.Sequential([keras.Input((5, 8)), layer, keras.layers.Dense(2, name="y")])


@pytest.fixture(params=["model.weights.h5", "model.keras"])
def file(request, tmp_path):
    """Save the weights of a model with a plain LSTM."""
    model, path = build(keras.layers.LSTM(4, name="lstm")), tmp_path / request.param
    model.save(path) if path.suffix == ".keras" else model.save_weights(path)
    return path


LAYERS = {
    "layer": lambda: keras_norm.LayerNormLSTM(4, name="lstm"),
    "no norm": lambda: keras_norm.NormLSTM(4, norm=None, name="lstm"),
    "cell": lambda: keras.layers.RNN(keras_norm.LayerNormLSTMCell(4), name="lstm"),
    "both": lambda: keras.layers.Bidirectional(keras_norm.LayerNormLSTM(4, name="lstm")),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_file_of_keras_layers_raises_with_the_layer_and_convert(make, file):
    layer = make()
    model = build(layer)
    before = layer.get_weights()
    line = (
        r"\nThe file has no weights for \w+ '[^']*lstm/[^']*'\. .* keras_norm\.convert\(model\)\.\n"
    )
    with pytest.raises(ValueError, match=line):
        model.load_weights(file)
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)


def test_skip_mismatch_warns_with_the_line(file):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(LAYERS["layer"]()).load_weights(file, skip_mismatch=True)
    assert any(re.search("has no weights for LayerNormLSTMCell", str(w.message)) for w in caught)


def test_the_advice_works(file):
    plain = build(keras.layers.LSTM(4, name="lstm"))
    plain.load_weights(file)
    converted = keras_norm.convert(plain, verbose=False)
    expected, actual = (m.get_layer("lstm").get_weights()[0] for m in (plain, converted))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_file_of_the_same_layers_loads(make, tmp_path):
    model, other = build(make()), build(make())
    model.save_weights(tmp_path / "same.weights.h5")
    other.load_weights(tmp_path / "same.weights.h5")
    for expected, actual in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(actual, expected)
