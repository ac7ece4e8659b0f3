"""Weights that do not fit are named, and no layer changes; see test_named_weights.py too."""

import keras
import numpy as np
import pytest

import keras_norm
from tests.compat.layers import addons_lstm, dreamer_gru, kiros_layer
from tests.compat.recorded import LOADERS, UNITS, built, read, refusal, rows

ONES = np.ones(UNITS)
# An entry of None is removed. The weights of TensorFlow Addons have numbers in place of names.
CHANGES = {
    "torch": [
        ({"bias_hh_l0": None}, "Missing entries: bias_hh_l0. Pass weights and"),
        ({"weight_ih": ONES}, "Entries without a layer: weight_ih. Pass layers for"),
        ({"weight_ih_l0": np.ones((5, 16))}, "transposed. To load"),
        ({"weight_hr_l0": np.ones((2, 4))}, "'weight_hr_l0' is the projection of nn.LSTM"),
        ({"bias_ih_l0": None, "bias_hh_l0": None}, "with use_bias=False"),
    ],
    "haste": [
        ({"recurrent_bias": np.ones(12)}, "haste's LayerNormGRU has one norm of W x and one"),
        ({"gamma_h": None}, "Missing entries: gamma_h."),
        ({"other": ONES}, "Entries without a layer: other."),
    ],
    "flax": [
        ({"params/cell/hf/bias": None}, "Missing entries: cell/hf/bias."),
        ({"params/cell/ii/kernel": np.ones((UNITS, 3))}, "is transposed"),
        ({"params/cell/ho.kernel": ONES}, "Two entries of the weights have the name 'cell/ho/k"),
        ({"batch_stats/cell/hf/bias": ONES}, "have the name 'cell/hf/bias'"),
    ],
    "addons": [
        (dict.fromkeys(range(3, 9)), "has 3 weights, and LayerNormLSTM 'addons' has 9. Weight"),
        (dict.fromkeys(range(3, 9)), "Weight 3 is the first that differs: old none, new "),
        ({9: ONES}, "Weight 9 is the first that differs: old (4,), new none."),
        ({8: np.ones(5)}, "'weights[8]' must have the shape (4,). Received shape (5,)."),
        (
            {8: np.ones(5)},
            "state_norm/beta' with as many units and inputs as in TensorFlow Addons.",
        ),
    ],
    "dreamer": [
        ({"layer_norm.bias": None}, "Missing entries: layer_norm.bias."),
        ({"other": ONES}, "Entries without a layer: other."),
        ({"linear.weight": np.ones((9, 12))}, "transposed. To load"),
        ({"linear.weight": np.ones((9, 8))}, "'linear.weight' must have the shape (12, 9). Rece"),
        (
            {"linear.bias": np.eye(12)[3]},
            "adds the bias 'linear.bias' before its norm, but NormGRU",
        ),
    ],
    "kiros": [
        ({"encoder_s3": None}, "Missing entries: encoder_s3"),
        ({"encoder_x": ONES}, "Entries without a layer: encoder_x"),
        ({"encoder_W": np.ones((4 * UNITS, 6))}, "transposed"),
        ({"encoder_h0": ONES}, "'encoder_h0' is a learned initial state"),
        ({"encoder_h0": ONES}, "initial_state=..."),
    ],
}
LAYERS = {
    "torch": ("lstm", lambda: keras.layers.LSTM(UNITS)),
    "haste": ("haste", lambda: keras_norm.LayerNormLSTM(UNITS)),
    "flax": ("linen LSTMCell", lambda: keras.layers.LSTM(UNITS)),
    "addons": ("rnn", lambda: addons_lstm(name="addons")),
    "dreamer": ("dreamer_v3", dreamer_gru),
    "kiros": ("lnlstm", lambda: kiros_layer("lnlstm")),
}


@pytest.mark.parametrize(("library", "changes", "message"), rows(CHANGES))
def test_weights_that_do_not_fit_are_named(library, changes, message):
    case, create = LAYERS[library]
    given, x, _ = read(library, case)
    named = dict(enumerate(given)) if library == "addons" else given
    named = {name: entry for name, entry in (named | changes).items() if entry is not None}
    weights = list(named.values()) if library == "addons" else named
    layer = built(create(), x.shape[-1])
    assert message in refusal(LOADERS[library], layer, weights)


@pytest.mark.parametrize(
    ("library", "prefix"),
    [("torch", "module."), ("haste", "module."), ("flax", "module/"), ("dreamer", "rssm.rnn.")],
)
def test_the_prefix_of_a_module_is_suggested_and_selects_it(library, prefix):
    case, create = LAYERS[library]
    given, x, _ = read(library, case)
    layer = built(create(), x.shape[-1])
    weights = {f"{prefix}{name.removeprefix('params/')}": a for name, a in given.items()}
    assert f"Pass prefix='{prefix}" in refusal(LOADERS[library], layer, weights)
    for chosen in (prefix, prefix[:-1]):
        LOADERS[library](layer, weights | {"epoch": np.ones(1)}, prefix=chosen)
