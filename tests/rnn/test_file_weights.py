"""A file of Keras layers has no weights for a normalized cell: the message names `convert`."""

import keras
import numpy as np
import pytest

import keras_norm
from tests.keras_version import needs_keras


def build(layer):
    return keras.Sequential([keras.Input((5, 8)), layer, keras.layers.Dense(2, name="y")])


def save(layer, path):
    """Save the weights of a model with a layer."""
    model = build(layer)
    model.save(path) if path.suffix == ".keras" else model.save_weights(path)
    return path


@pytest.fixture(params=["model.weights.h5", "model.keras"])
def path(request, tmp_path):
    return tmp_path / request.param


def lstm():
    return keras.layers.LSTM(4, name="lstm")


def layer_norm_lstm():
    return keras_norm.LayerNormLSTM(4, name="lstm")


# Pairs of a layer of Keras and a layer with norms in its place.
LAYERS = {
    "layer": (lstm, layer_norm_lstm),
    "no norm": (lstm, lambda: keras_norm.NormLSTM(4, norm=None, name="lstm")),
    "cell": (
        lambda: keras.layers.RNN(keras.layers.LSTMCell(4), name="lstm"),
        lambda: keras.layers.RNN(keras_norm.LayerNormLSTMCell(4), name="lstm"),
    ),
    "bidirectional": (
        lambda: keras.layers.Bidirectional(lstm()),
        lambda: keras.layers.Bidirectional(layer_norm_lstm()),
    ),
}
LINE = r"\nThe file has no weights for \w+ '[^']*lstm/[^']*'.* keras_norm\.convert\(model\)\.\n"


@pytest.mark.parametrize(("plain", "normalized"), LAYERS.values(), ids=LAYERS)
def test_a_file_of_keras_layers_raises_with_the_layer_and_convert(plain, normalized, path):
    layer = normalized()
    model = build(layer)
    before, file = layer.get_weights(), save(plain(), path)
    with pytest.raises(ValueError, match=LINE):
        model.load_weights(file)
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)
    with pytest.warns(UserWarning, match="has no weights for") as caught:
        model.load_weights(file, skip_mismatch=True)
    assert any("has no weights for" in str(warning.message) for warning in caught)


def without_weights():
    """Build a layer whose norms have no weights."""
    norm = keras_norm.LayerNormalization(center=False, scale=False)
    return keras_norm.NormLSTM(4, norm=norm, name="lstm")


def assert_loads(make, path, **options):
    model, other = build(make()), build(make())
    model.save_weights(path, **options)
    other.load_weights(path)
    for expected, actual in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "make", [*(normalized for _, normalized in LAYERS.values()), without_weights]
)
def test_a_file_of_the_same_layers_loads(make, tmp_path):
    assert_loads(make, tmp_path / "same.weights.h5")


@needs_keras(3, 13, "Keras 3.10 cannot read its own weights in several files")
def test_weights_in_several_files_load(tmp_path):
    sizes = {"max_shard_size": 6e-7}  # gigabytes
    assert_loads(layer_norm_lstm, tmp_path / "several.weights.json", **sizes)
    assert len([*tmp_path.glob("*.h5")]) > 1
