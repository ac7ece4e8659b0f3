"""Loading weights of TensorFlow Addons' LayerNormLSTMCell."""

import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_addons_weights
from tests import oracles

FEATURES, UNITS = 3, 4


def addons_layer(epsilon=1e-3, **kwargs):
    layer = keras_norm.NormLSTM(
        UNITS,
        norm=keras_norm.LayerNormalization(epsilon=epsilon),
        normalize_carry=True,
        return_sequences=True,
        dtype="float64",
        **kwargs,
    )
    layer.build((None, 5, FEATURES))
    return layer


def addons_weights(seed=0):
    """Draw random weights in the order of tfa.rnn.LayerNormLSTMCell.get_weights()."""
    rng = np.random.default_rng(seed)
    shapes = [(FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,)]
    shapes += [(4 * UNITS,)] * 4 + [(UNITS,)] * 2
    return [rng.normal(size=shape) for shape in shapes]


def addons_outputs(weights, x, epsilon=1e-3):
    """Compute the outputs of tfa.rnn.LayerNormLSTMCell with NumPy."""
    kernel, recurrent_kernel, bias, *affine = weights

    def norm(z, gamma, beta):
        return oracles.layer_norm(z, gamma, beta, axes=(-1,), epsilon=epsilon)

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


def test_epsilon_may_differ_from_the_default_of_addons():
    layer, weights = addons_layer(epsilon=0.1), addons_weights()
    load_addons_weights(layer, weights, epsilon=0.1)
    x = np.random.default_rng(1).normal(size=(2, 5, FEATURES))
    np.testing.assert_allclose(layer(x), addons_outputs(weights, x, 0.1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"epsilon": 1e-5}, "epsilon=1e-05"),
        ({"epsilon_placement": "outside"}, "epsilon_placement='outside'"),
        ({"ddof": 1}, "ddof=1"),
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


def test_another_layer_is_refused():
    with pytest.raises(TypeError, match=r"must be a NormLSTM.*Received: NormGRU"):
        load_addons_weights(keras_norm.NormGRU(UNITS), addons_weights())


@pytest.mark.parametrize(
    "layer",
    [
        keras_norm.LayerNormLSTM(UNITS),
        keras_norm.LayerNormLSTM(UNITS, norm_form="joint"),
        keras_norm.NormLSTM(UNITS, norm=keras_norm.RMSNormalization(), normalize_carry=True),
        keras_norm.NormLSTM(UNITS, normalize_carry=True),
    ],
    ids=["carries c", "joint", "another norm", "no norm"],
)
def test_a_layer_with_other_equations_is_refused(layer):
    layer.build((None, 5, FEATURES))
    with pytest.raises(ValueError, match="Create the layer as NormLSTM"):
        load_addons_weights(layer, addons_weights())


def test_a_layer_that_is_not_built_is_refused():
    layer = keras_norm.LayerNormLSTM(UNITS, normalize_carry=True)
    with pytest.raises(ValueError, match="Build it"):
        load_addons_weights(layer, addons_weights(), epsilon=1e-5)


def test_the_wrong_number_of_weights_is_refused():
    with pytest.raises(ValueError, match=r"has 9 weights: kernel, .*Received 3"):
        load_addons_weights(addons_layer(), addons_weights()[:3])


def test_weights_of_another_shape_are_refused_and_no_weight_changes():
    layer, weights = addons_layer(), addons_weights()
    before = layer.get_weights()
    weights[-1] = np.zeros(UNITS + 1)
    with pytest.raises(ValueError, match=r"'state_norm/beta' must have the shape \(4,\)"):
        load_addons_weights(layer, weights)
    for old, new in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
