"""Layers with the weights of PyTorch modules give the outputs of the modules.

`tests/compat/record_torch.py` computed the outputs with PyTorch, NeMo and haste.
"""

import json

import keras
import numpy as np
import pytest
import safetensors.numpy

import keras_norm
from keras_norm.compat import load_torch_weights
from tests.compat import recorded
from tests.compat.recorded import FEATURES, UNITS

KERAS = {"lstm": keras.layers.LSTM, "gru": keras.layers.GRU, "rnn": keras.layers.SimpleRNN}
OURS = {"lstm": keras_norm.NormLSTM, "gru": keras_norm.NormGRU, "rnn": keras_norm.NormSimpleRNN}


def layer_norm_lstm(epsilon=1e-5, **options):
    norm = keras_norm.LayerNormalization(epsilon=epsilon)
    options = {"normalize_carry": True, "return_sequences": True, **options}
    return keras_norm.NormLSTM(UNITS, norm, **options)


def chain(*layers):
    """Build layers on the inputs of the cases, one after the other."""
    features = FEATURES
    for layer in layers:
        layer.build((None, None, features))
        features = layer.compute_output_shape((None, None, features))[-1]
    return list(layers)


def check_outputs(case, layers, x=None):
    y = case.x if x is None else x
    for layer in layers:
        y = layer(y)
    np.testing.assert_allclose(y, case.y, rtol=0, atol=1e-5)


def load_and_check(name, *layers):
    """Load a case into layers, one of them or a list, and compare the outputs."""
    case = recorded.read(name)
    chain(*layers)
    load_torch_weights(layers[0] if len(layers) == 1 else list(layers), case.state_dict)
    check_outputs(case, layers)


def test_the_versions_of_the_libraries_are_recorded():
    versions = json.loads(str(recorded.arrays()["versions"]))
    assert set(versions) == {"torch", "nemo_toolkit", "haste_pytorch_cpu", "numpy"}


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
class TestRecurrentModules:
    def test_a_layer(self, kind):
        load_and_check(kind, OURS[kind](UNITS, return_sequences=True))

    def test_a_module_without_bias(self, kind):
        options = {"return_sequences": True, "use_bias": False}
        load_and_check(f"{kind}_no_bias", KERAS[kind](UNITS, **options))

    def test_stacked_layers(self, kind):
        stack = [layers[kind](UNITS, return_sequences=True) for layers in (KERAS, OURS)]
        load_and_check(f"{kind}_stacked", *stack)

    def test_stacked_bidirectional_layers(self, kind):
        stack = [layers[kind](UNITS, return_sequences=True) for layers in (OURS, KERAS)]
        load_and_check(f"{kind}_bidirectional", *map(keras.layers.Bidirectional, stack))

    def test_a_cell(self, kind):
        layer = OURS[kind](UNITS, return_sequences=True)
        chain(layer)
        case = recorded.read(f"{kind}_cell")
        load_torch_weights(layer.cell, case.state_dict)
        check_outputs(case, [layer])

    def test_a_keras_rnn_of_the_cell(self, kind):
        cell = KERAS[kind](UNITS).cell
        load_and_check(kind, keras.layers.RNN(cell, return_sequences=True))


def test_the_activation_of_an_rnn_may_be_relu():
    load_and_check("rnn_relu", keras.layers.SimpleRNN(UNITS, "relu", return_sequences=True))


@pytest.mark.parametrize(
    "layer",
    [layer_norm_lstm(), layer_norm_lstm(use_bias=False)],
    ids=["with a bias", "without a bias"],
)
def test_the_layer_norm_cell_of_torchscript(layer):
    load_and_check("torchscript", layer)


def test_the_layer_norm_cell_of_torchscript_in_both_directions():
    load_and_check("torchscript_bidirectional", keras.layers.Bidirectional(layer_norm_lstm()))


def test_the_stacked_layer_norm_lstm_of_nemo():
    load_and_check("nemo", layer_norm_lstm(), layer_norm_lstm())


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("layer_norm", keras.layers.LayerNormalization(epsilon=1e-5)),
        ("layer_norm", keras_norm.LayerNormalization(epsilon=1e-5)),
        ("batch_norm", keras.layers.BatchNormalization(epsilon=1e-5)),
        ("batch_norm", keras_norm.BatchNormalization(epsilon=1e-5)),
        ("batch_norm", keras_norm.BatchNormalization(epsilon=1e-5, momentum=None)),
        ("linear", keras.layers.Dense(UNITS)),
        ("linear", keras.layers.TimeDistributed(keras.layers.Dense(UNITS))),
    ],
)
def test_other_modules(name, layer):
    load_and_check(name, layer)


def test_a_batch_norm_that_counts_its_updates_goes_on_with_the_count_of_pytorch():
    layer = keras_norm.BatchNormalization(epsilon=1e-5, momentum=None)
    load_and_check("batch_norm", layer)
    np.testing.assert_array_equal(layer.update_count, 11)


class TestWholeModel:
    """A model of several modules is loaded at once, with a dict from modules to layers."""

    @pytest.fixture
    def model(self):
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

    @staticmethod
    def modules(model):
        embedding, *lstm, norm, batch_norm, head = model.layers
        names = {"embedding": embedding, "encoder.lstm": lstm, "norm": norm}
        return names | {"batch_norm": batch_norm, "head": head}

    @pytest.fixture
    def case(self):
        return recorded.read("tagger")

    def test_outputs_equal_those_of_pytorch(self, model, case):
        load_torch_weights(self.modules(model), case.state_dict)
        np.testing.assert_allclose(model(case.x), case.y, rtol=0, atol=1e-5)

    @pytest.mark.parametrize("prefix", ["module", "module."])
    def test_a_file_whose_names_have_a_prefix(self, prefix, model, case, tmp_path):
        state = {f"module.{name}": a for name, a in case.state_dict.items()}
        safetensors.numpy.save_file(state | {"epoch": np.ones(1)}, tmp_path / "w.safetensors")
        load_torch_weights(self.modules(model), tmp_path / "w.safetensors", prefix)
        np.testing.assert_allclose(model(case.x), case.y, rtol=0, atol=1e-5)

    def test_one_module_is_loaded_by_its_prefix(self, model, case):
        load_torch_weights(model.layers[-1], case.state_dict, "head")
        np.testing.assert_array_equal(model.layers[-1].bias, case.state_dict["head.bias"])
