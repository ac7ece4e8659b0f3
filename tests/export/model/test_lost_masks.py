import keras
import pytest

import keras_norm
from keras_norm.export.model.masks import LostMask, lost_masks
from tests.export import models


class Unmasked(keras.layers.Layer):
    """A layer that keeps the timesteps, but does not support masks."""

    def call(self, x):
        return x + 1.0


class UnmaskedBidirectional(keras.layers.Bidirectional):
    """The wrapper of Keras 3.16, which does not pass masks on."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.supports_masking = False


def bidirectional():
    layer = keras_norm.LayerNormGRU(2, return_sequences=True)
    return UnmaskedBidirectional(layer, name="lossy")


def masked(lossy, user, length=None):
    inputs = keras.Input((length, 3))
    x = lossy(keras.layers.Masking(name="masking")(inputs))
    return keras.Model(inputs, user(keras.layers.Dense(2)(x)))


pytestmark = pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")
USERS = [
    lambda: keras_norm.LayerNormLSTM(2, name="user"),
    lambda: keras.layers.Bidirectional(keras.layers.LSTM(2), name="user"),
    lambda: keras.layers.GlobalAveragePooling1D(name="user"),
    lambda: keras_norm.BatchNormalization(momentum=None, name="user"),
]


@pytest.mark.parametrize("user", USERS)
def test_a_layer_that_drops_the_mask_of_a_later_layer_is_named(user):
    expected = [LostMask("layer 'lossy' (Unmasked)", ("user",))]
    assert lost_masks(masked(Unmasked(name="lossy"), user())) == expected


def test_the_wrapper_of_keras_3_16_is_named():
    (found,) = lost_masks(masked(bidirectional(), USERS[0]()))
    assert found.name == "layer 'lossy' (UnmaskedBidirectional)"
    assert "'user' would use the mask, but reads padding as data" in found.description
    assert "mask=" in found.advice


def test_an_operation_is_named_and_all_users_are_counted():
    x = keras.Input((None, 3))
    h = keras.ops.multiply(2.0, keras.layers.Masking()(x))
    first = keras.layers.LSTM(2, return_sequences=True, name="first")(h)
    (found,) = lost_masks(keras.Model(x, keras.layers.LSTM(2, name="second")(first)))
    assert found.users == ("first", "second")
    assert found.name.startswith("operation 'multiply")
    assert "'first' and 1 more would use" in found.description


def test_attention_over_a_value_without_its_mask_is_named():
    x = keras.Input((None, 4))
    h = Unmasked(name="lossy")(keras.layers.Masking()(x))
    attention = keras.layers.MultiHeadAttention(1, 2, name="user")
    assert [m.users for m in lost_masks(keras.Model(x, attention(h, h)))] == [("user",)]


def test_a_mask_that_is_lost_in_a_nested_model_is_found():
    inner = masked(Unmasked(name="lossy"), USERS[0]())
    assert lost_masks(models.of(inner)) == lost_masks(inner) != []


@pytest.mark.parametrize(
    "build",
    [
        lambda: masked(keras_norm.LayerNormalization(), USERS[0]()),
        lambda: masked(Unmasked(), keras.layers.Dense(2)),
        lambda: masked(Unmasked(), keras.layers.GlobalMaxPooling1D()),
        # The last output of a recurrent layer has no timesteps to mask.
        lambda: keras.Sequential(
            [
                keras.Input((None, 3)),
                keras.layers.Masking(),
                keras.layers.LSTM(2),
                keras.layers.RepeatVector(3),
                keras.layers.LSTM(2),
            ]
        ),
        lambda: keras.Sequential([keras.Input((None, 3)), Unmasked(), keras.layers.LSTM(2)]),
    ],
)
def test_a_mask_that_no_layer_needs_is_not_lost(build):
    assert lost_masks(build()) == []


def test_a_mask_in_the_call_of_the_user_is_not_lost():
    x = keras.Input((None, 3))
    masking = keras.layers.Masking()
    h = bidirectional()(masking(x))
    outputs = keras_norm.LayerNormLSTM(2)(h, mask=masking.compute_mask(x))
    assert lost_masks(keras.Model(x, outputs)) == []
