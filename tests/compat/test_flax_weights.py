"""Whole models of Flax; test_outputs.py tests the modules one by one."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_flax_weights
from tests.compat.recorded import UNITS, built, check_outputs, nest, read, refusal

FEATURES, TOKENS = 3, 7
LENGTHS = np.array([5, 3])
# The names of the modules in a compact linen model and in a nnx model, by the layers below.
LINEN = ["Embed_0", "OptimizedLSTMCell_0", "OptimizedLSTMCell_1", "LayerNorm_0", "GRUCell_0"]
LINEN += ["RMSNorm_0", "BatchNorm_0", "Dense_0"]
NNX = ["embed", "encoder/forward_rnn", "encoder/backward_rnn", "norm", "decoder", "rms", "batch"]
NNX += ["heads/0"]


@pytest.mark.parametrize(("api", "names"), [("linen", LINEN), ("nnx", NNX)])
def test_a_whole_model_computes_the_outputs_of_flax(api, names):
    tokens, mask = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="bool")
    layers = [
        keras.layers.Embedding(TOKENS, FEATURES),
        keras.layers.Bidirectional(keras_norm.NormLSTM(UNITS, return_sequences=True)),
        keras_norm.LayerNormalization(epsilon=1e-6),
        keras_norm.NormGRU(UNITS, return_sequences=True, go_backwards=True),
        keras_norm.RMSNormalization(),
        keras_norm.BatchNormalization(epsilon=1e-5),
        keras.layers.TimeDistributed(keras.layers.Dense(2)),
    ]
    embedding, encoder, norm, decoder, *last = layers
    y = keras.ops.flip(decoder(norm(encoder(embedding(tokens), mask=mask)), mask=mask), axis=1)
    for layer in last:
        y = layer(y)
    case, unmasked = read("flax", f"{api} model"), np.arange(5) < LENGTHS[:, None]
    layers[1:2] = encoder.forward_layer, encoder.backward_layer
    load_flax_weights(dict(zip(names, layers, strict=True)), nest(case.weights))
    actual = np.asarray(keras.Model([tokens, mask], y)([case.x, unmasked]))
    np.testing.assert_allclose(actual[unmasked], case.y[unmasked], rtol=0, atol=1e-6)


def test_a_file_is_loaded(tmp_path):
    case = read("flax", "linen LSTMCell")
    np.savez(tmp_path / "w.npz", **{name.replace("/", "."): w for name, w in case.weights.items()})
    layer = built(keras.layers.LSTM(UNITS, return_sequences=True), FEATURES)
    load_flax_weights(layer, tmp_path / "w.npz")
    check_outputs(case, [layer], 1e-6)


@pytest.mark.parametrize("prefix", ["decoder", "decoder/", "decoder/cell"])
def test_a_prefix_selects_a_module(prefix):
    weights = read("flax", "nnx model").weights
    layer = built(keras.layers.GRU(UNITS), 2 * UNITS)
    load_flax_weights(layer, nest(weights), prefix)
    r, z, n = np.split(weights["decoder/cell/dense_h/kernel"], 3, axis=1)
    np.testing.assert_array_equal(layer.cell.recurrent_kernel, np.concatenate([z, r, n], axis=1))


def test_the_epsilon_of_a_module_is_an_argument():
    layer = built(keras.layers.LayerNormalization(epsilon=1e-3), FEATURES)
    vectors = {"scale": np.full(3, 2.0), "bias": np.full(3, 5.0)}
    load_flax_weights(layer, vectors, epsilon=1e-3)
    np.testing.assert_array_equal(layer.beta, vectors["bias"])
    rms = built(keras_norm.RMSNormalization(), FEATURES)
    message = refusal(load_flax_weights, rms, {"scale": np.ones(3)}, epsilon=1e-3)
    assert "RMSNorm has epsilon=0.001, but received RMS" in message


def test_batch_norm_needs_both_collections():
    layer = built(keras.layers.BatchNormalization(epsilon=1e-5), FEATURES)
    params = {"params": {"scale": np.ones(3), "bias": np.ones(3)}}
    message = refusal(load_flax_weights, layer, params)
    assert "{'params': ..., 'batch_stats': ...}" in message


def test_a_list_of_layers_is_refused():
    with pytest.raises(TypeError, match=r"dict from names of modules to layers.*Received: list"):
        load_flax_weights([keras.layers.LSTM(UNITS)], {})
