"""Dreamer's GRU in two libraries, and its biases; test_outputs.py has its outputs."""

import numpy as np

from keras_norm.compat import BiasedLayerNormalization, load_dreamer_weights
from tests.compat.layers import dreamer_gru
from tests.compat.recorded import FEATURES, UNITS, built, check_outputs, read, refusal


def dreamerv3_torch(weights):
    """Return the weights of sheeprl's cell as NM512/dreamerv3-torch has them, for [x, h]."""
    of_h, of_x = np.split(weights["linear.weight"], [UNITS], axis=1)
    return {
        "dynamics._cell.layers.GRU_linear.weight": np.concatenate([of_x, of_h], axis=1),
        "dynamics._cell.layers.GRU_norm.weight": weights["layer_norm.weight"],
        "dynamics._cell.layers.GRU_norm.bias": weights["layer_norm.bias"],
    }


def test_the_cell_of_dreamerv3_torch_has_its_inputs_before_the_state():
    case, layer = read("dreamer", "dreamer_v3"), built(dreamer_gru(), FEATURES)
    weights = dreamerv3_torch(case.weights)
    message = refusal(load_dreamer_weights, layer, weights)
    assert message.endswith("Pass prefix='dynamics._cell.'.")
    load_dreamer_weights(layer, weights | {"head.bias": np.ones(2)}, "dynamics._cell")
    check_outputs(case, [layer], 1e-12)


def test_a_linear_bias_of_zeros_is_accepted():
    case, layer = read("dreamer", "dreamer_v3"), built(dreamer_gru(), FEATURES)
    load_dreamer_weights(layer, case.weights | {"linear.bias": np.zeros(3 * UNITS)})
    check_outputs(case, [layer], 1e-12)


def test_a_weight_file_is_loaded_into_a_cell_with_a_bias_inside_the_norm(tmp_path):
    case = read("dreamer", "dreamer_v2")
    np.savez(tmp_path / "rnn.npz", **case.weights)
    layer = built(dreamer_gru(1e-5, BiasedLayerNormalization), FEATURES)
    load_dreamer_weights(layer.cell, tmp_path / "rnn.npz", epsilon=1e-5)
    check_outputs(case, [layer], 1e-12)


def test_the_initial_bias_of_dreamer_is_the_bias_of_loaded_weights():
    """Initial weights of Dreamer, with gamma 1 and beta 0, have the bias of unit_update_bias."""
    layers = [
        built(dreamer_gru(unit_update_bias=unit, bias_initializer="zeros"))
        for unit in (False, True)
    ]
    load_dreamer_weights(layers[0], read("dreamer", "dreamer_v3").weights)
    np.testing.assert_array_equal(*(layer.cell.bias for layer in layers))
