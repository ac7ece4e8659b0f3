"""A state dict or a layer that does not fit is named in one line, and no layer changes."""

import keras
import numpy as np
import pytest

import keras_norm
from keras_norm.compat import load_torch_weights
from tests.compat import recorded
from tests.compat.recorded import FEATURES, UNITS, CustomCell, refusal


def built(layer):
    layer.build((None, None, FEATURES))
    return layer


def state(case, **changes):
    """Return the state dict of a case with other entries; None removes an entry."""
    given = recorded.read(case).state_dict | changes
    return {name: entry for name, entry in given.items() if entry is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias_hh_l0": None}, "Missing entries: bias_hh_l0."),
        ({"weight_ih": np.ones(2)}, "Entries without a layer: weight_ih."),
        ({"weight_ih_l0": np.ones((5, 16))}, "transposed: pass its transpose"),
        ({"weight_hr_l0": np.ones((2, 4))}, "'weight_hr_l0' is the projection of nn.LSTM"),
        ({"bias_ih_l0": None, "bias_hh_l0": None}, "Create it with use_bias=False"),
    ],
)
def test_a_state_dict_that_does_not_fit_is_refused(changes, message):
    layer = built(keras.layers.LSTM(UNITS))
    assert message in refusal(load_torch_weights, layer, state("lstm", **changes))


@pytest.mark.parametrize(
    ("layer", "case", "message"),
    [
        (
            keras.layers.LSTM(UNITS),
            "lstm_stacked",
            "'weight_ih_l1' is a weight of layer 1, counted",
        ),
        (keras.layers.LSTM(UNITS), "lstm_bidirectional", "inside keras.layers.Bidirectional."),
        ([keras.layers.GRU(UNITS), keras.layers.GRU(UNITS)], "gru", "entries: weight_ih_l1"),
        (keras.layers.Bidirectional(keras.layers.GRU(UNITS)), "gru", "weight_ih_l0_reverse"),
        ([keras.layers.LSTM(UNITS), keras.layers.LSTM(UNITS)], "lstm_cell", "weight_ih_l1"),
        (keras.layers.GRU(UNITS), "lstm", "has the shape (16, 4), as in nn.LSTM. Received GRU"),
        (keras.layers.LSTM(UNITS), "rnn", "Create the layer as SimpleRNN(units)."),
        (
            keras.layers.Bidirectional(keras.layers.LSTM(UNITS), merge_mode="sum"),
            "lstm_bidirectional",
            "with merge_mode='sum', and a bidirectional module concatenates",
        ),
    ],
)
def test_another_module_than_that_of_the_layer_is_refused(layer, case, message):
    for each in layer if isinstance(layer, list) else [layer]:
        built(each)
    assert message in refusal(load_torch_weights, layer, state(case))


@pytest.mark.parametrize("axis", [2, [-1], [2]])
def test_the_last_axis_of_a_layer_norm_may_have_any_number(axis):
    layer = built(keras.layers.LayerNormalization(axis, epsilon=1e-5))
    load_torch_weights(layer, state("layer_norm"))
    np.testing.assert_array_equal(layer.gamma, state("layer_norm")["weight"])


def test_a_layer_norm_over_another_axis_is_refused():
    layer = keras.layers.LayerNormalization(axis=1, epsilon=1e-5, name="norm")
    layer.build((None, FEATURES, FEATURES))
    message = refusal(load_torch_weights, layer, state("layer_norm"))
    assert "nn.LayerNorm normalizes the last axes. Received LayerNormalization 'norm'" in message


def test_one_layer_for_two_modules_is_refused():
    weights = {f"{name}.{n}": entry for name in "ab" for n, entry in state("linear").items()}
    layer = built(keras.layers.Dense(UNITS))
    with pytest.raises(ValueError, match=r"from a\.weight and from b\.weight\. Give each module"):
        load_torch_weights({"a": layer, "b": layer}, weights)


def test_a_checkpoint_around_the_state_dict_needs_a_prefix():
    layer = built(keras.layers.LSTM(UNITS))
    message = refusal(load_torch_weights, layer, {"state_dict": state("lstm"), "epoch": 3})
    assert message.endswith("Pass prefix='state_dict.'.")
    load_torch_weights(layer, {"state_dict": state("lstm"), "epoch": 3}, "state_dict.")


def test_a_module_in_place_of_its_state_dict_is_refused():
    class Module:
        def state_dict(self):
            return {}

    layer = built(keras.layers.LSTM(UNITS))
    assert "Pass the result of its method state_dict()" in refusal(
        load_torch_weights, layer, Module(), error=TypeError
    )


class CustomDense(keras.layers.Dense):
    """A user's layer."""


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (keras.layers.Conv1D(3, 2, name="conv"), "does not support Conv1D 'conv'. It supports"),
        (keras_norm.RMSNormalization(), "does not support RMSNormalization"),
        (keras.Sequential([keras.layers.LSTM(3)]), "Pass a dict from names of modules to layers"),
        (keras.layers.RNN(CustomCell(3, name="mine")), "mine' is of a custom class"),
        (CustomDense(3, name="mine"), "CustomDense 'mine' is of a custom class"),
        (
            keras.layers.RNN(keras.layers.StackedRNNCells([keras.layers.LSTMCell(3)])),
            "StackedRNNCells 'rnn",
        ),
    ],
)
def test_a_layer_without_a_counterpart_is_refused(layer, message):
    assert message in refusal(load_torch_weights, built(layer), state("lstm"), error=TypeError)


@pytest.mark.parametrize("layers", [None, "lstm", {"lstm": 3}])
def test_something_else_than_a_layer_is_refused(layers):
    with pytest.raises(TypeError, match="layers must be a layer, a list of layers, or a dict"):
        load_torch_weights(layers, state("lstm"))


def test_a_list_with_another_layer_is_refused():
    layers = [built(keras.layers.LSTM(UNITS)), built(keras.layers.Dense(3))]
    message = refusal(load_torch_weights, layers, state("lstm"), error=TypeError)
    assert "Pass a list only for the layers of a recurrent" in message


def quantized():
    layer = built(keras.layers.Dense(UNITS))
    layer.quantize("int8")
    return layer


def with_lora():
    layer = built(keras.layers.Dense(UNITS))
    layer.enable_lora(2)
    return layer


@pytest.mark.parametrize("create", [quantized, with_lora])
def test_a_quantized_layer_is_refused(create):
    message = refusal(load_torch_weights, create(), state("linear"))
    assert "Load the weights before you quantize the layer" in message


def layer_norm_lstm(**options):
    return keras_norm.LayerNormLSTM(UNITS, **options)


@pytest.mark.parametrize(
    ("case", "layer", "message"),
    [
        ("lstm", keras.layers.LSTM(UNITS, "relu"), "activation='tanh'. Received LSTMCell"),
        (
            "lstm",
            keras.layers.LSTM(UNITS, recurrent_activation="hard_sigmoid"),
            "with recurrent_activation='hard_sigmoid'. Create the layer as LSTM(units).",
        ),
        ("lstm", keras.layers.LSTM(UNITS, go_backwards=True), "with go_backwards=False"),
        ("lstm", layer_norm_lstm(), "Create the layer as LSTM(units), or as NormLSTM(units)"),
        ("gru", keras.layers.GRU(UNITS, reset_after=False), "nn.GRU has reset_after=True."),
        ("rnn", keras.layers.SimpleRNN(UNITS, "sigmoid"), "activation='tanh'"),
        ("torchscript", keras.layers.LSTM(UNITS), "normalize_carry=True), or pass the eps"),
        ("torchscript", layer_norm_lstm(), "has normalize_carry=True. Received LayerNormLSTMCell"),
        (
            "torchscript",
            layer_norm_lstm(normalize_carry=True, epsilon=1e-3),
            "/kernel_norm' with epsilon=0.001",
        ),
        (
            "torchscript",
            keras_norm.NormLSTM(UNITS, keras_norm.RMSNormalization(), normalize_carry=True),
            "without it in kernel_norm, recurrent_norm, state_norm",
        ),
        ("layer_norm", keras.layers.LayerNormalization(), "Create it with epsilon=1e-05"),
        ("layer_norm", keras_norm.LayerNormalization(epsilon=1e-5, ddof=1), "with ddof=1"),
        (
            "layer_norm",
            keras.layers.LayerNormalization(epsilon=1e-5, center=False),
            "has no beta. Create it with center=True.",
        ),
        ("batch_norm", keras.layers.BatchNormalization(), "Create it with epsilon=1e-05"),
        ("linear", keras.layers.Dense(UNITS, use_bias=False), "Create it with use_bias=True"),
    ],
)
def test_a_layer_with_other_equations_is_refused(case, layer, message):
    assert message in refusal(load_torch_weights, built(layer), state(case))


def test_a_layer_norm_without_bias_needs_a_layer_without_beta():
    weights = state("layer_norm", bias=None)
    layer = built(keras.layers.LayerNormalization(epsilon=1e-5))
    assert "Create it with center=False." in refusal(load_torch_weights, layer, weights)
    load_torch_weights(built(keras.layers.LayerNormalization(epsilon=1e-5, center=False)), weights)


def test_another_epsilon_of_pytorch_is_an_argument():
    layer = built(keras.layers.LayerNormalization(epsilon=1e-3))
    load_torch_weights(layer, state("layer_norm"), epsilon=1e-3)
