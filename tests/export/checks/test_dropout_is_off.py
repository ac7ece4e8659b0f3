import keras
import numpy as np
import pytest
from keras import ops

from keras_norm.clone import clone_for_statistics
from tests.export.checks.gaps import (
    DATA,
    measure_gap,
    model_of,
)
from tests.export.own_layers import Unconfigured


class FixedDropout(keras.layers.Layer):
    """Has a dropout rate that is not in its config."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dropout = 0.5
        self.drop = keras.layers.Dropout(self.dropout)

    def call(self, x, training=False):
        return self.drop(x, training=training)


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dropout(0.5),
        keras.layers.SpatialDropout1D(0.5),
        keras.layers.GaussianDropout(0.5),
        keras.layers.GaussianNoise(0.5),
        keras.layers.GRU(2, dropout=0.5, recurrent_dropout=0.5),
        keras.layers.Bidirectional(keras.layers.SimpleRNN(2, dropout=0.5)),
        keras.layers.AlphaDropout(0.5),
        FixedDropout(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_dropout_and_noise_are_off_in_nested_layers(layer):
    assert measure_gap(model_of(layer), DATA).worst == pytest.approx(0.0, abs=1e-6)


def test_dropout_of_attention_is_off():
    x = keras.Input((None, 3), name="x")
    once = keras.layers.MultiHeadAttention(2, 2, dropout=0.5)(x, x)
    twice = keras.layers.Attention(dropout=0.5)([once, once])
    assert measure_gap(keras.Model(x, twice), DATA).worst == pytest.approx(0.0, abs=1e-6)


def test_the_model_and_its_seeds_do_not_change():
    model = model_of(keras.layers.Dropout(0.5, seed=1), keras.layers.BatchNormalization())
    before = [ops.convert_to_numpy(v) for v in model.variables]
    measure_gap(model, DATA)
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, ops.convert_to_numpy(variable))


def test_a_model_that_cannot_be_rebuilt_is_not_measured_and_does_not_pass_max_gap():
    model = model_of(Unconfigured(object()))
    gap = measure_gap(model, DATA)
    assert gap.verdict == "not measured"
    assert "no config" in gap.reason
    assert gap.passed
    assert not measure_gap(model, DATA, max_gap=1.0).passed


class OwnDropout(keras.layers.Layer):
    def __init__(self, dropout, **kwargs):
        super().__init__(**kwargs)
        self.dropout = dropout

    def call(self, x, training=False):
        return keras.random.dropout(x, self.dropout) if training else x


def test_dropout_that_cannot_be_switched_off_is_named():
    with pytest.raises(ValueError, match=r"cannot be switched off.*Use keras.layers.Dropout"):
        clone_for_statistics(model_of(OwnDropout(0.5)))
