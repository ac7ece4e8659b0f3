"""A target layer with other equations, or with unknown equations, is refused by name."""

import keras
import pytest

import keras_norm
from keras_norm.compat import equations
from tests.compat.recorded import CustomCell


class CustomLayer(keras.layers.LSTM):
    """A user's layer."""


def built(layer):
    layer.build((None, 4, 5))
    return layer


def test_the_cell_of_a_recurrent_layer_is_found():
    layer = built(keras_norm.LayerNormLSTM(3))
    assert equations.recurrent_cell(layer) is layer.cell
    assert equations.recurrent_cell(layer.cell) is layer.cell


@pytest.mark.parametrize(
    "layer",
    [CustomLayer(3, name="mine"), keras.layers.RNN(CustomCell(3, name="mine"))],
    ids=["layer", "cell"],
)
def test_a_custom_class_is_refused(layer):
    with pytest.raises(TypeError, match=r"Custom\w+ '\S*mine' is of a custom class.*set_weights"):
        equations.recurrent_cell(built(layer))


def test_a_layer_that_is_not_built_is_refused():
    with pytest.raises(ValueError, match=r"LSTMCell 'lstm_cell' is not built.*Build it"):
        equations.recurrent_cell(keras.layers.LSTM(3))


def test_bidirectional_has_two_directions():
    layer = keras.layers.Bidirectional(keras.layers.GRU(3))
    assert equations.directions(layer) == [layer.forward_layer, layer.backward_layer]
    assert equations.directions(layer.forward_layer) == [layer.forward_layer]


def bidirectional(layer):
    return keras.layers.Bidirectional(layer, backward_layer=keras.layers.GRU(3))


@pytest.mark.parametrize("wrapper", [lambda layer: layer, bidirectional])
def test_a_layer_that_reads_backwards_is_refused(wrapper):
    layer = wrapper(keras.layers.GRU(3, go_backwards=True, name="gru"))
    with pytest.raises(ValueError, match=r"gru' reads sequences backwards.*go_backwards=False"):
        equations.directions(layer)


@pytest.mark.parametrize(
    ("norm", "message"),
    [
        (None, "without it in kernel_norm, recurrent_norm, state_norm"),
        ({"kernel_norm": keras_norm.LayerNormalization()}, "it in recurrent_norm, state_norm"),
        (keras_norm.RMSNormalization(), "without it in kernel_norm"),
        (keras_norm.LayerNormalization(ddof=1), "kernel_norm' with ddof=1"),
        (keras_norm.LayerNormalization(epsilon=0.1), "kernel_norm' with epsilon=0.1"),
    ],
    ids=["no norm", "one slot", "RMS", "ddof", "epsilon"],
)
def test_cells_without_the_layer_norms_are_refused(norm, message):
    cell = built(keras_norm.NormLSTM(3, norm)).cell
    with pytest.raises(ValueError, match=message):
        equations.require_layer_norms(cell, {"epsilon": 1e-3}, "The cell", "Create it")
