"""Whole models of PyTorch; test_outputs.py tests the modules one by one."""

import keras
import numpy as np
import pytest
import safetensors.numpy

import keras_norm
from keras_norm.compat import load_torch_weights
from tests.compat.recorded import FEATURES, UNITS, built, check_outputs, read, refusal


def create_model():
    def lstm():
        return keras.layers.LSTM(UNITS, return_sequences=True)

    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(9, FEATURES),
            keras.layers.Bidirectional(lstm()),
            keras.layers.Bidirectional(lstm()),
            keras_norm.LayerNormalization(epsilon=1e-5),
            keras_norm.BatchNormalization(epsilon=1e-5),
            keras.layers.Dense(3),
        ]
    )


@pytest.mark.parametrize("prefix", ["", "module", "module."])
def test_a_file_of_a_whole_model_is_loaded_with_a_dict(prefix, tmp_path):
    model, case = create_model(), read("torch", "tagger")
    state = case.weights
    if prefix:
        state = {f"module.{name}": a for name, a in state.items()} | {"epoch": np.ones(1)}
    safetensors.numpy.save_file(state, tmp_path / "w.safetensors")
    embedding, *lstm, norm, batch_norm, head = model.layers
    names = {"embedding": embedding, "encoder.lstm": lstm, "norm": norm}
    names |= {"batch_norm": batch_norm, "head": head}
    load_torch_weights(names, tmp_path / "w.safetensors", prefix)
    check_outputs(case, [model])


def test_one_layer_for_two_modules_is_refused():
    linear = read("torch", "linear").weights
    weights = {f"{name}.{n}": entry for name in "ab" for n, entry in linear.items()}
    layer = built(keras.layers.Dense(UNITS))
    message = refusal(load_torch_weights, {"a": layer, "b": layer}, weights)
    assert "from a.weight and from b.weight. Give each module" in message


def test_a_layer_norm_without_bias_needs_a_layer_without_beta():
    weights = {"weight": read("torch", "layer_norm").weights["weight"]}
    layer = built(keras.layers.LayerNormalization(epsilon=1e-5))
    assert "Create it with center=False." in refusal(load_torch_weights, layer, weights)
    load_torch_weights(built(keras.layers.LayerNormalization(epsilon=1e-5, center=False)), weights)


def test_a_module_in_place_of_its_state_dict_is_refused():
    class Module:
        def state_dict(self):
            return {}

    layer = built(keras.layers.LSTM(UNITS))
    message = refusal(load_torch_weights, layer, Module(), error=TypeError)
    assert "Pass the result of its method state_dict()" in message


@pytest.mark.parametrize("layers", [None, "lstm", {"lstm": 3}])
def test_something_else_than_a_layer_is_refused(layers):
    with pytest.raises(TypeError, match="layers must be a layer, a list of layers, or a dict"):
        load_torch_weights(layers, read("torch", "lstm").weights)
