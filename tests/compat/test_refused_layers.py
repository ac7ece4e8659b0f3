"""A layer that does not compute the equations of the library is refused, and keeps its weights."""

import keras
import pytest
from keras.layers import GRU, LSTM, RNN, Bidirectional, Dense

import keras_norm
from tests.compat.layers import (
    CustomCell,
    CustomDense,
    CustomLayer,
    dreamer_gru,
    kiros_layer,
    layer_norm_lstm,
    projected_lstm,
)
from tests.compat.recorded import LOADERS, UNITS, Case, built, read, refusal, rows

LN, RMS = keras_norm.LayerNormalization, keras_norm.RMSNormalization
KerasLN, KerasBN = keras.layers.LayerNormalization, keras.layers.BatchNormalization
FLAX_NORM = "flax norm"  # gamma, beta and statistics of three features


def carried(norm):
    """Create an LSTM that carries the normalized c."""
    return keras_norm.NormLSTM(UNITS, norm, normalize_carry=True)


def carried_with(**options):
    """Create an LSTM whose norm of c has other options than the norms of W x and U h."""
    return carried({"kernel_norm": LN(), "recurrent_norm": LN(), "state_norm": LN(**options)})


def quantized(layer):
    layer.quantize("int8")
    return layer


def with_lora(layer):
    layer.enable_lora(2)
    return layer


OTHER_EQUATIONS = {
    "torch": [
        ("lstm", LSTM(UNITS, "relu"), "activation='tanh', but received LSTMCell"),
        ("lstm", LSTM(UNITS, recurrent_activation="relu"), "'relu'. Create the layer as LSTM(un"),
        ("lstm", keras_norm.NormLSTM(UNITS, peepholes=True), "nn.LSTM has peepholes=False, but"),
        ("lstm", LSTM(UNITS, go_backwards=True), "with go_backwards=False"),
        ("lstm", keras_norm.LayerNormLSTM(UNITS), "as LSTM(units) or NormLSTM(units)"),
        ("gru", GRU(UNITS, reset_after=False), "nn.GRU has reset_after=True, but"),
        ("rnn", keras.layers.SimpleRNN(UNITS, "sigmoid"), "activation='tanh'"),
        ("rnn", keras_norm.NormSimpleRNN(UNITS, zoneout=0.1), "nn.RNN has zoneout=0.0, but rec"),
        ("gru", keras_norm.NormGRU(UNITS, norm_form="joint"), "with norm_form='joint'. Create"),
        ("torchscript", layer_norm_lstm(zoneout=0.1), "with zoneout=0.1. Create the layer as Norm"),
        (
            "torchscript",
            LSTM(UNITS),
            "normalize_carry=True), or call load_torch_weights with epsilon=..., the",
        ),
        ("torchscript", layer_norm_lstm(normalize_carry=False), "normalize_carry=True, but rec"),
        ("torchscript", layer_norm_lstm(1e-3), "/kernel_norm' with epsilon=0.001"),
        (
            "torchscript",
            carried({"kernel_norm": LN()}),
            "LayerNormalization at recurrent_norm, state_norm",
        ),
        (
            "layer_norm",
            KerasLN(),
            "Create the layer with epsilon=1e-05, or call load_torch_weights",
        ),
        ("layer_norm", LN(epsilon=1e-5, ddof=1), "with ddof=1"),
        ("layer_norm", KerasLN(epsilon=1e-5, center=False), "Create it with center=True."),
        ("layer_norm", KerasLN(1, 1e-5, name="norm"), "last axes, but received LayerNormalizati"),
        ("batch_norm", KerasBN(), "Create the layer with epsilon=1e-05"),
        ("linear", Dense(UNITS, use_bias=False), "with use_bias=True"),
        # the weights of another module
        ("lstm_stacked", LSTM(UNITS), "'weight_ih_l1' is a weight of layer 1, counted"),
        ("lstm_bidirectional", LSTM(UNITS), "inside keras.layers.Bidirectional."),
        ("gru", [GRU(UNITS), GRU(UNITS)], "entries: weight_ih_l1"),
        ("gru", Bidirectional(GRU(UNITS)), "weight_ih_l0_reverse"),
        ("lstm_projection", projected_lstm(2), "'weight_hr_l0' is the projection of nn.LSTM(proj"),
        ("lstm_cell", [LSTM(UNITS), LSTM(UNITS)], "weight_ih_l1"),
        ("lstm", GRU(UNITS), "of a weight of nn.LSTM, but received GRU"),
        ("rnn", LSTM(UNITS), "Create the layer as SimpleRNN(units)."),
        (
            "lstm_bidirectional",
            Bidirectional(LSTM(UNITS), "sum"),
            "merge_mode='sum', but the bidir",
        ),
        (
            "lstm_bidirectional",
            Bidirectional(LSTM(UNITS, go_backwards=True), backward_layer=LSTM(UNITS)),
            "reads sequences backwards",
        ),
    ],
    "haste": [
        ("haste", LSTM(UNITS), "Create the layer as LayerNormLSTM(units)"),
        ("haste", Bidirectional(keras_norm.LayerNormLSTM(UNITS)), "received Bidirectional"),
        ("haste", keras_norm.LayerNormLSTM(UNITS, epsilon=1e-3), "epsilon=1e-05"),
        ("haste", keras_norm.LayerNormLSTM(UNITS, cell_zoneout=0.1), "cell_zoneout=0.0"),
        ("haste", layer_norm_lstm(), "normalize_carry=False"),
        ("haste", keras_norm.LayerNormLSTM(UNITS, norm_form="joint"), "a LayerNormalization at"),
        ("haste", keras_norm.LayerNormLSTM(UNITS, use_bias=False), "use_bias=True"),
        ("haste", keras_norm.LayerNormLSTM(UNITS, go_backwards=True), "go_backwards=False"),
    ],
    "flax": [
        ("linen LSTMCell", keras_norm.LayerNormLSTM(UNITS), "recurrent_norm, state_norm. Load"),
        ("linen GRUCell", GRU(UNITS, reset_after=False), "with reset_after=False"),
        ("linen LSTMCell", LSTM(UNITS, use_bias=False), "with use_bias=False"),
        ("linen LSTMCell", keras_norm.NormLSTM(UNITS, cell_zoneout=0.1), "with cell_zoneout=0.1"),
        ("linen GRUCell", keras_norm.NormGRU(UNITS, norm_form="joint"), "norm_form='joint'"),
        ("linen LSTMCell", Bidirectional(LSTM(UNITS), "mul"), "merge_mode='mul', but the bidir"),
        (FLAX_NORM, KerasLN(), "LayerNorm has epsilon=1e-06, but received"),
        (FLAX_NORM, KerasBN(), "BatchNorm has epsilon=1e-05, but received"),
        (FLAX_NORM, LN(epsilon=1e-6, ddof=1), "with ddof=1"),
        (FLAX_NORM, keras_norm.BatchNormalization(epsilon=1e-5, debias=True), "debias=True"),
        (FLAX_NORM, KerasLN(1, 1e-6), "LayerNorm normalizes the last axis, or"),
        (FLAX_NORM, RMS(axis=1), "with axis=1. Create the layer with axis=-1, or"),
    ],
    "addons": [
        ("rnn", keras_norm.LayerNormLSTM(UNITS), "Create the layer as NormLSTM"),
        ("rnn", keras_norm.LayerNormLSTM(UNITS, norm_form="joint"), "Create the layer as NormLSTM"),
        ("rnn", carried(RMS()), "Create the layer as NormLSTM"),
        ("rnn", Bidirectional(keras_norm.LayerNormLSTM(UNITS)), "Create the layer as NormLSTM"),
        ("rnn", carried_with(epsilon=1e-5), "/state_norm' with epsilon=1e-05. Create"),
        ("rnn", carried_with(epsilon_placement="outside"), "with epsilon_placement='outside'"),
        ("rnn", carried_with(center=False), "/state_norm' with center=False"),
        ("rnn", layer_norm_lstm(), "LayerNormalization(epsilon=0.001), normalize_carry=True)"),
    ],
    "dreamer": [
        ("dreamer_v3", keras_norm.LayerNormGRU(UNITS), "joint_norm. Create the layer as NormGRU("),
        ("dreamer_v3", dreamer_gru(norm=RMS), "LayerNormalization at joint_norm"),
        (
            "dreamer_v3",
            dreamer_gru(1e-5),
            "or call load_dreamer_weights with epsilon=..., the eps of the old norm.",
        ),
        ("dreamer_v3", dreamer_gru(activation="relu"), "has activation='tanh'"),
        ("dreamer_v3", dreamer_gru(zoneout=0.1), "has zoneout=0.0, but received NormGR"),
        ("dreamer_v3", dreamer_gru(go_backwards=True), "go_backwards=False"),
        ("dreamer_v2", dreamer_gru(), "BiasedLayerNormalization(epsilon=0.001), norm_form='joint"),
    ],
    "kiros": [
        ("lnlstm", keras_norm.LayerNormLSTM(UNITS, epsilon=1e-5), "NormLSTM(units, {'kernel_norm'"),
        ("lngru", keras_norm.LayerNormGRU(UNITS, epsilon=1e-5), "NormGRU(units, {'kernel_norm'"),
        ("lnlstm", kiros_layer("lnlstm", normalize_carry=True), "normalize_carry=True"),
        ("lnlstm", kiros_layer("lnlstm", use_bias=False), "use_bias=False"),
        ("lngru", kiros_layer("lngru", zoneout=0.1), "with zoneout=0.1"),
        ("gru", keras_norm.NormGRU(UNITS, norm_form="joint"), "with norm_form='joint'"),
        ("lnlstm", kiros_layer("lstm"), "/lstm_cell' has none. Create"),
        ("gru", kiros_layer("lngru"), "have no gains s1"),
    ],
}


def find_case(library, name):
    if name != FLAX_NORM:
        return read(library, name)
    x = read("flax", "linen LSTMCell").x
    return Case(dict.fromkeys(("scale", "bias", "mean", "var"), x[0, 0]), x, None)


@pytest.mark.parametrize(("library", "case", "layer", "message"), rows(OTHER_EQUATIONS))
def test_a_layer_with_other_equations_is_refused(library, case, layer, message):
    case = find_case(library, case)
    built(layer, case.x.shape[-1])
    assert message in refusal(LOADERS[library], layer, case.weights)


OTHER_CLASSES = {
    "torch": [
        (keras.layers.Conv1D(3, 2, name="conv"), "does not support Conv1D 'conv'. It supports"),
        (RMS(), "does not support RMSNormalization"),
        (keras.Sequential([LSTM(3)]), "Pass a dict from names of modules to layers"),
        (RNN(CustomCell(3, name="mine")), "mine' is of a custom class"),
        (CustomDense(3, name="mine"), "CustomDense 'mine' is of a custom class"),
        (RNN(keras.layers.StackedRNNCells([keras.layers.LSTMCell(3)])), "StackedRNNCells 'rnn"),
        ([LSTM(UNITS), Dense(3)], "Pass a list of layers only if all are recurrent."),
    ],
    "flax": [
        (RNN(CustomCell(UNITS, name="mine")), "mine' is of a custom"),
        (CustomDense(UNITS, name="mine"), "CustomDense 'mine' is of a custom class"),
        (keras.layers.Conv1D(UNITS, 3, name="conv"), "weights of Conv1D 'conv'. Pass LSTM"),
        (RNN([keras.layers.LSTMCell(UNITS)], name="rnn"), "weights of RNN 'rnn'"),
    ],
    "addons": [
        (keras_norm.NormGRU(UNITS), "contain a NormLSTM or a NormLSTMCell, and no other cell wi"),
        (LSTM(UNITS, name="lstm"), "LSTM 'lstm'"),
        (Dense(UNITS, name="head"), "Dense 'head'"),
        (Bidirectional(keras_norm.LayerNormGRU(UNITS)), "NormGRUCell"),
    ],
    "dreamer": [
        (GRU(UNITS), "layer must be a NormGRU or a NormGRUCell. Received: GRU"),
        (keras_norm.NormLSTM(UNITS, LN(), norm_form="joint_all"), "Create the layer as NormGRU("),
        (Bidirectional(dreamer_gru()), "Received: Bidirectional"),
    ],
    "kiros": [
        (Bidirectional(LSTM(UNITS)), "layer must be a NormLSTM, a NormGRU"),
        (Dense(UNITS), "layer must be a NormLSTM, a NormGRU"),
        (CustomLayer(UNITS, name="mine"), "CustomLayer 'mine' is of a custom class"),
    ],
}
FIRST = {"torch": "lstm", "flax": "linen LSTMCell", "addons": "rnn", "kiros": "lstm"}
FIRST |= {"dreamer": "dreamer_v3"}


@pytest.mark.parametrize(("library", "layer", "message"), rows(OTHER_CLASSES))
def test_a_layer_without_a_counterpart_is_refused(library, layer, message):
    case = read(library, FIRST[library])
    built(layer, case.x.shape[-1])
    assert message in refusal(LOADERS[library], layer, case.weights, error=TypeError)


@pytest.mark.parametrize("change", [quantized, with_lora])
def test_a_quantized_layer_is_refused(change):
    layer = change(built(Dense(UNITS)))
    message = refusal(LOADERS["torch"], layer, read("torch", "linear").weights)
    assert "Load the weights before you quantize the layer" in message


@pytest.mark.parametrize("layer", [LSTM(UNITS, name="new"), Dense(UNITS, name="new")])
def test_a_layer_that_is_not_built_is_refused(layer):
    with pytest.raises(ValueError, match=r"'(new|lstm_cell)' is not built.*Build it"):
        LOADERS["torch"](layer, read("torch", "lstm").weights)
