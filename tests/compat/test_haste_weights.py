"""LayerNormLSTM with the weights of haste's LayerNormLSTM; see record_torch.py."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_haste_weights
from tests.compat import recorded
from tests.compat.recorded import FEATURES, UNITS, refusal


def built(layer):
    layer.build((None, None, FEATURES))
    return layer


def layer_without_beta():
    norm, plain = (keras_norm.LayerNormalization(epsilon=1e-5, center=c) for c in (True, False))
    norms = {"kernel_norm": plain, "recurrent_norm": plain, "state_norm": norm}
    return keras_norm.NormLSTM(UNITS, norms, return_sequences=True)


@pytest.mark.parametrize(
    "layer",
    [keras_norm.LayerNormLSTM(UNITS, return_sequences=True), layer_without_beta()],
    ids=["LayerNormLSTM", "without beta"],
)
def test_outputs_equal_those_of_haste(layer):
    case = recorded.read("haste")
    load_haste_weights(built(layer), case.state_dict)
    np.testing.assert_allclose(layer(case.x), case.y, rtol=0, atol=1e-5)


def test_the_module_may_have_a_prefix_and_the_target_may_be_a_cell():
    case = recorded.read("haste")
    layer = built(keras_norm.LayerNormLSTM(UNITS, return_sequences=True))
    state = {f"encoder.{name}": entry for name, entry in case.state_dict.items()}
    load_haste_weights(layer.cell, state | {"head": 1.0}, "encoder")
    np.testing.assert_allclose(layer(case.x), case.y, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recurrent_bias": np.ones(12)}, "haste's LayerNormGRU normalizes all three gates"),
        ({"gamma_h": None}, "Missing entries: gamma_h."),
        ({"other": np.ones(3)}, "Entries without a layer: other."),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused(changes, message):
    state = recorded.read("haste").state_dict | changes
    state = {name: entry for name, entry in state.items() if entry is not None}
    assert message in refusal(load_haste_weights, built(keras_norm.LayerNormLSTM(UNITS)), state)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (keras.layers.LSTM(UNITS), "Create the layer as LayerNormLSTM(units)"),
        (keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS)), "Received Bidirectional"),
        (keras_norm.LayerNormLSTM(UNITS, epsilon=1e-3), "epsilon=1e-05"),
        (keras_norm.LayerNormLSTM(UNITS, normalize_carry=True), "normalize_carry=False"),
        (keras_norm.LayerNormLSTM(UNITS, norm_form="joint"), "without it in kernel_norm"),
        (keras_norm.LayerNormLSTM(UNITS, use_bias=False), "use_bias=True"),
        (keras_norm.LayerNormLSTM(UNITS, go_backwards=True), "go_backwards=False"),
    ],
)
def test_a_layer_with_other_equations_is_refused(layer, message):
    state = recorded.read("haste").state_dict
    assert message in refusal(load_haste_weights, built(layer), state)
