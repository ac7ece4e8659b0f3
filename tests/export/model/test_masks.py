import keras
import numpy as np
import pytest

from keras_norm.export.compare.samples import read_samples
from keras_norm.export.model.masks import mask_fills, masked_later, why_not_padded
from keras_norm.export.signature import input_specs
from tests.export import models


def sequences(name="x"):
    return keras.Input((None, 3), name=name)


def fills_of(model, length=4):
    specs = input_specs(model)
    arrays = {
        name: np.ones([2, *(length if size is None else size for size in spec.shape[1:])])
        for name, spec in specs.items()
    }
    samples = read_samples(specs, {n: a.astype(specs[n].dtype) for n, a in arrays.items()})
    return mask_fills(model), samples


def encoder():
    """A model that contains a model of two inputs, which masks the second input."""
    plain, masked = sequences("plain"), sequences("masked")
    rnn = keras.layers.SimpleRNN(2)
    outputs = keras.layers.Add()([rnn(plain), rnn(keras.layers.Masking(-5.0)(masked))])
    return keras.Model([plain, masked], outputs)


class Subclassed(keras.Model):
    def call(self, x):
        return x


def masked_by_an_input():
    x, other, keep = (
        sequences(),
        sequences("other"),
        keras.Input((None,), dtype="bool", name="keep"),
    )
    h = keras.layers.SimpleRNN(2)(keras.layers.Dense(3)(x), mask=keep)
    outputs = keras.layers.Add()(
        [h, keras.layers.GlobalMaxPooling1D()(keras.layers.Dense(2)(other))]
    )
    return keras.Model([x, other, keep], outputs)


def masked():
    x = sequences()
    return keras.Model(x, keras.layers.SimpleRNN(2)(keras.layers.Masking(-5.0)(x)))


def embedded():
    return models.of(keras.layers.Embedding(5, 3, mask_zero=True), (None,), dtype="int32")


def nested():
    a, b = sequences("a"), sequences("b")
    return keras.Model([a, b], encoder()([b, a]))


def beside_unmasked_models():
    x = sequences()
    inner = keras.Sequential([sequences(), keras.layers.SimpleRNN(2)])
    last = keras.layers.SimpleRNN(2)(keras.layers.Masking(-5.0)(x))
    return keras.Model(x, keras.layers.Concatenate()([inner(x), inner(Subclassed()(x)), last]))


@pytest.mark.parametrize(
    ("build", "fills"),
    [
        (masked, {"x": -5.0}),
        (embedded, {"x": 0}),
        (nested, {"a": -5.0}),
        (beside_unmasked_models, {"x": -5.0}),
        (masked_by_an_input, {"x": 0, "keep": 0}),
    ],
)
def test_the_fill_of_a_masked_input_is_the_value_that_its_layer_masks(build, fills):
    assert mask_fills(build()) == fills


def test_an_input_that_is_not_masked_cannot_be_padded():
    fills, samples = fills_of(masked_by_an_input())
    assert "input 'other'" in why_not_padded(fills, samples)


def test_an_input_with_static_time_cannot_be_padded():
    model = models.stack(keras.layers.Masking(0.0), keras.layers.SimpleRNN(2), shape=(4, 3))
    assert "is static" in why_not_padded(*fills_of(model))


@pytest.mark.parametrize("layer", [keras.layers.Dense(2), keras.layers.SimpleRNN(2)])
def test_a_model_without_masks_has_no_fills(layer):
    x = sequences()
    fills, samples = fills_of(keras.Model(x, layer(x)))
    assert fills == {}
    assert "Masking" in why_not_padded(fills, samples)


def test_an_embedding_masks_its_input_only_with_mask_zero():
    model = models.of(keras.layers.Embedding(5, 3), (None,), dtype="int32")
    assert mask_fills(model) == {}


def test_an_input_that_is_masked_after_other_layers_is_reported_with_the_masking_layer():
    x, ids = sequences(), keras.Input((None,), dtype="int32", name="ids")
    a = keras.layers.Masking(-1.0, name="masking")(keras.layers.Rescaling(2.0)(x))
    b = keras.layers.Embedding(5, 3, mask_zero=True, name="words")(keras.ops.maximum(ids, 0))
    model = keras.Model([x, ids], keras.layers.SimpleRNN(2)(keras.layers.Add()([a, b])))
    assert mask_fills(model) == {}
    assert masked_later(model, {}) == {"x": "masking", "ids": "words"}


def test_an_input_that_is_masked_later_in_a_nested_model_is_reported_with_the_model():
    inner_layers = keras.layers.Dense(3), keras.layers.Masking()
    inner = keras.Sequential([sequences(), *inner_layers], name="inner")
    straight = keras.Sequential([sequences(), keras.layers.Masking()], name="straight")
    x, y, z = sequences("x"), sequences("y"), sequences("z")
    outputs = keras.layers.Add()([inner(x), straight(keras.layers.Dense(3)(y)), straight(z)])
    model = keras.Model([x, y, z], outputs)
    assert masked_later(model, mask_fills(model)) == {"x": "inner", "y": "straight"}


def test_an_input_without_time_is_not_masked():
    word, x = keras.Input((), dtype="int32", name="word"), sequences()
    embedded = keras.layers.Embedding(5, 4, mask_zero=True)(word)
    inner = keras.layers.SimpleRNN(4)(keras.layers.Masking(-1.0)(x))
    model = keras.Model([word, x], keras.layers.Add()([embedded, inner]))
    assert mask_fills(model) == {"x": -1.0}
    assert masked_later(model, mask_fills(model)) == {}
