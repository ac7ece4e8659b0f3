"""Layers with the weights of other libraries compute the outputs of the libraries."""

import itertools

import keras
import numpy as np
import pytest
from keras.layers import Bidirectional

import keras_norm
from keras_norm.compat import BiasedLayerNormalization
from tests.compat.layers import (
    KERAS,
    OURS,
    addons_lstm,
    dreamer_gru,
    haste_lstm_without_beta,
    kiros_layer,
    layer_norm_lstm,
    projected_lstm,
)
from tests.compat.recorded import (
    LOADERS,
    UNITS,
    built,
    check_outputs,
    read,
    rows,
)

ATOL = {"torch": 1e-6, "haste": 1e-6, "flax": 1e-6, "addons": 1e-6, "kiros": 1e-12}
ATOL |= {"dreamer": 1e-12}
SEQUENCES = {"return_sequences": True}
FLAX_CELLS = {"LSTMCell": "lstm", "OptimizedLSTMCell": "lstm", "GRUCell": "gru"}
FLAX_CELLS |= {"SimpleCell": "rnn"}


def torch_recurrences():
    for kind in KERAS:
        theirs, ours, second, third = (
            layers[kind](UNITS, **SEQUENCES) for layers in (KERAS, OURS, OURS, KERAS)
        )
        yield kind, OURS[kind](UNITS, **SEQUENCES)
        yield kind, keras.layers.RNN(KERAS[kind](UNITS).cell, **SEQUENCES)
        yield f"{kind}_no_bias", KERAS[kind](UNITS, use_bias=False, **SEQUENCES)
        yield f"{kind}_stacked", [theirs, ours]
        yield f"{kind}_bidirectional", [Bidirectional(second), Bidirectional(third)]


def flax_recurrences():
    apis = ("linen", KERAS, OURS), ("nnx", OURS, KERAS)
    for (api, one, other), (cell, kind) in itertools.product(apis, FLAX_CELLS.items()):
        yield f"{api} {cell}", one[kind](UNITS, **SEQUENCES)
        yield f"{api} Bidirectional {cell}", Bidirectional(other[kind](UNITS, **SEQUENCES))


OUTPUTS = {
    "torch": [
        *torch_recurrences(),
        ("lstm_projection", [Bidirectional(projected_lstm()), Bidirectional(projected_lstm())]),
        ("rnn_relu", keras.layers.SimpleRNN(UNITS, "relu", **SEQUENCES)),
        ("torchscript", layer_norm_lstm()),
        ("torchscript", layer_norm_lstm(use_bias=False)),
        ("torchscript_bidirectional", Bidirectional(layer_norm_lstm())),
        ("nemo", [layer_norm_lstm(), layer_norm_lstm()]),
        ("layer_norm", keras.layers.LayerNormalization(epsilon=1e-5)),
        ("layer_norm", keras.layers.LayerNormalization([2], epsilon=1e-5)),
        ("layer_norm", keras_norm.LayerNormalization(epsilon=1e-5)),
        ("batch_norm", keras.layers.BatchNormalization(epsilon=1e-5)),
        ("batch_norm", keras_norm.BatchNormalization(epsilon=1e-5, momentum=None)),
        ("linear", keras.layers.TimeDistributed(keras.layers.Dense(UNITS))),
    ],
    "haste": [
        ("haste", keras_norm.LayerNormLSTM(UNITS, **SEQUENCES)),
        ("haste", haste_lstm_without_beta()),
        ("haste_zoneout", keras_norm.LayerNormLSTM(UNITS, zoneout=0.3, **SEQUENCES)),
    ],
    "flax": [*flax_recurrences()],
    "addons": [
        ("rnn", addons_lstm()),
        ("without_bias", addons_lstm(use_bias=False, return_sequences=False)),
        ("backwards", addons_lstm(go_backwards=True, return_sequences=False)),
    ],
    "dreamer": [
        ("dreamer_v3", dreamer_gru()),
        ("dreamer_v3", dreamer_gru(use_bias=False)),
        ("dreamer_v3", dreamer_gru(norm=BiasedLayerNormalization)),
    ],
    "kiros": [
        ("lnlstm", kiros_layer("lnlstm")),
        ("lngru", kiros_layer("lngru")),
        ("lngru", kiros_layer("lngru", use_bias=False)),
        ("lstm", kiros_layer("lstm")),
        ("gru", kiros_layer("gru")),
    ],
}


@pytest.mark.parametrize(("library", "case", "layers"), rows(OUTPUTS))
def test_layers_compute_the_outputs_of_the_library(library, case, layers):
    case = read(library, case)
    found = layers if isinstance(layers, list) else [layers]
    built(found, case.x.shape[-1], time=None)
    LOADERS[library](layers, case.weights)
    check_outputs(case, found, ATOL[library])


CELLS = {
    "torch": [(f"{kind}_cell", OURS[kind](UNITS, **SEQUENCES)) for kind in OURS],
    "haste": [("haste", keras_norm.LayerNormLSTM(UNITS, **SEQUENCES))],
    "flax": [("linen GRUCell", keras.layers.RNN(keras_norm.NormGRUCell(UNITS), **SEQUENCES))],
    "addons": [("rnn", addons_lstm())],
    "dreamer": [("dreamer_v3", dreamer_gru())],
    "kiros": [("gru", kiros_layer("gru"))],
}


@pytest.mark.parametrize(("library", "case", "layer"), rows(CELLS))
def test_a_cell_alone_is_loaded(library, case, layer):
    case = read(library, case)
    built(layer, case.x.shape[-1], time=None)
    LOADERS[library](layer.cell, case.weights)
    check_outputs(case, [layer], ATOL[library])


EPSILONS = {
    "torch": [("layer_norm", keras.layers.LayerNormalization(epsilon=1e-3), 1e-3)],
    "addons": [("epsilon", layer_norm_lstm(0.1, return_sequences=False), 0.1)],
    "dreamer": [("dreamer_v2", dreamer_gru(1e-5, BiasedLayerNormalization), 1e-5)],
}


@pytest.mark.parametrize(("library", "case", "layer", "epsilon"), rows(EPSILONS))
def test_another_epsilon_of_the_library_is_an_argument(library, case, layer, epsilon):
    case = read(library, case)
    LOADERS[library](built(layer, case.x.shape[-1]), case.weights, epsilon=epsilon)
    if library != "torch":
        check_outputs(case, [layer], ATOL[library])


def test_a_batch_norm_goes_on_with_the_count_of_updates_of_pytorch():
    layer = built(keras_norm.BatchNormalization(epsilon=1e-5, momentum=None))
    LOADERS["torch"](layer, read("torch", "batch_norm").weights)
    np.testing.assert_array_equal(layer.update_count, 11)
