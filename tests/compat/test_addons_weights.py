"""Loading weights of models with TensorFlow Addons' LayerNormLSTMCell.

`record_addons.py` recorded weights and outputs with the cell of TensorFlow Addons.
"""

import functools

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_addons_weights
from tests import oracles
from tests.compat.addons_models import (
    FEATURES,
    UNITS,
    addons_layer,
    addons_weights,
    recorded_arrays,
    recorded_outputs,
)
from tests.compat.recorded import refusal

refused = functools.partial(refusal, load_addons_weights)


def addons_outputs(weights, x):
    """Compute the outputs of tfa.rnn.LayerNormLSTMCell with NumPy."""
    kernel, recurrent_kernel, bias, *affine = weights

    def norm(z, gamma, beta):
        return oracles.layer_norm(z, gamma, beta, axes=(-1,), epsilon=1e-3)

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    h = c = np.zeros((len(x), UNITS))
    outputs = []
    for x_t in np.swapaxes(x, 0, 1):
        z = norm(x_t @ kernel, *affine[:2]) + norm(h @ recurrent_kernel, *affine[2:4]) + bias
        i, f, g, o = np.split(z, 4, axis=-1)
        c = norm(sigmoid(f) * c + sigmoid(i) * np.tanh(g), *affine[4:])
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("target", ["layer", "cell"])
def test_loaded_weights_give_the_outputs_of_the_addons_cell(target):
    layer, weights = addons_layer(), addons_weights()
    load_addons_weights(layer if target == "layer" else layer.cell, weights)
    x = np.random.default_rng(1).normal(size=(2, 5, FEATURES))
    np.testing.assert_allclose(layer(x), addons_outputs(weights, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"epsilon": 1e-5}, "epsilon=1e-05"),
        ({"epsilon_placement": "outside"}, "epsilon_placement='outside'"),
        ({"center": False}, "center=False"),
    ],
    ids=str,
)
def test_norms_with_other_equations_are_refused(options, received):
    norms = {slot: keras_norm.LayerNormalization() for slot in ("kernel_norm", "recurrent_norm")}
    norms["state_norm"] = keras_norm.LayerNormalization(**options)
    layer = keras_norm.NormLSTM(UNITS, norms, normalize_carry=True)
    layer.build((None, 5, FEATURES))
    reason = rf"/state_norm' with {received}.*LayerNormalization\(epsilon=0.001\).*norm_epsilon"
    with pytest.raises(ValueError, match=reason):
        load_addons_weights(layer, addons_weights())


def test_the_cell_may_have_no_bias():
    layer, weights = addons_layer(use_bias=False), addons_weights()
    del weights[2]
    load_addons_weights(layer, weights)
    np.testing.assert_array_equal(layer.cell.kernel_norm.gamma, weights[2])


@pytest.mark.parametrize(
    ("name", "options", "epsilon"),
    [
        ("rnn", {}, 1e-3),
        ("without_bias", {"use_bias": False, "return_sequences": False}, 1e-3),
        ("epsilon", {"epsilon": 0.1, "return_sequences": False}, 0.1),
        ("backwards", {"go_backwards": True, "return_sequences": False}, 1e-3),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_layer_computes_the_recorded_outputs_of_addons(name, options, epsilon):
    layer = addons_layer(**options)
    load_addons_weights(layer, recorded_arrays(name), epsilon)
    np.testing.assert_allclose(
        layer(recorded_outputs()["inputs"]), recorded_outputs()[name], rtol=0, atol=1e-6
    )


def test_the_count_of_updates_of_a_batch_norm_is_not_among_the_old_weights():
    norm = keras_norm.BatchNormalization(debias=True)
    model = keras.Sequential([keras.Input((5, FEATURES)), addons_layer(), norm])
    weights = [*addons_weights(), *(np.full(UNITS, float(k)) for k in range(4))]
    load_addons_weights(model, weights)
    np.testing.assert_array_equal(norm.moving_variance, np.full(UNITS, 3.0))


def built(layer):
    layer.build((None, 5, FEATURES))
    return layer


@pytest.mark.parametrize(
    ("layer", "received"),
    [
        (keras_norm.NormGRU(UNITS), "GRUCell"),
        (keras.layers.LSTM(UNITS, name="lstm"), "LSTM 'lstm'"),
        (keras.layers.Dense(UNITS, name="head"), "Dense 'head'"),
        (keras.layers.Bidirectional(keras_norm.LayerNormGRU(UNITS)), "NormGRUCell"),
    ],
)
def test_a_layer_without_an_lstm_of_keras_norm_is_refused(layer, received):
    message = refused(built(layer), addons_weights(), error=TypeError)
    assert "must contain a NormLSTM or a NormLSTMCell" in message
    assert received in message


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.LayerNormLSTM(UNITS),
        keras_norm.LayerNormLSTM(UNITS, norm_form="joint"),
        keras_norm.NormLSTM(UNITS, norm=keras_norm.RMSNormalization(), normalize_carry=True),
        keras.layers.Bidirectional(keras_norm.LayerNormLSTM(UNITS)),
    ],
    ids=["carries c", "joint", "another norm", "in Bidirectional"],
)
def test_a_layer_with_other_equations_is_refused(layer):
    assert "Create the layer as NormLSTM" in refusal(
        load_addons_weights, built(layer), addons_weights()
    )


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (lambda w: w[:3], "has 3 weights, and NormLSTM 'old' has 9. Weight 3 is the first that d"),
        (lambda w: w[:3], "old none, new "),
        (lambda w: [*w, np.ones(2)], "Weight 9 is the first that differs: old (2,), new none."),
    ],
)
def test_the_wrong_number_of_weights_is_refused(select, reason):
    assert reason in refusal(
        load_addons_weights, addons_layer(name="old"), select(addons_weights())
    )


def test_weights_that_do_not_fit_a_variable_are_refused_by_their_number():
    """`test_named_weights.py` tests all weights that do not fit."""
    weights = addons_weights()
    weights[8] = np.zeros(UNITS + 1)
    message = refused(addons_layer(), weights)
    assert "'weights[8]' must have the shape (4,). Received shape (5,)." in message
    assert "state_norm/beta' the sizes that it has in TensorFlow Addons." in message
