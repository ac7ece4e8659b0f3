"""Options of the LSTM and of the GRU: peepholes, a clipped c, a projection, candidate dropout."""

import keras
import numpy as np
import pytest

import keras_norm
from tests.pairwise import pairwise
from tests.rnn import kinds
from tests.rnn.kinds import BATCH, GRU, LSTM, TIME, UNITS
from tests.rnn.test_zoneout import UNMASKED_FIRST

MASKS = {"unmasked": None, "masked": UNMASKED_FIRST}
LAYER_NORM = keras_norm.LayerNormalization()
NORMS = {"none": None, "layer": LAYER_NORM, "batch": keras_norm.TimestepBatchNormalization(TIME)}
RATE = 0.4
KEPT = np.random.default_rng(3).random((TIME, BATCH, UNITS)) >= RATE
CHANGES = np.random.default_rng(4).random((TIME, BATCH, UNITS)) < 0.5  # of c

ALONE = {
    "peepholes": (LSTM, {"peepholes": True}),
    "clip": (LSTM, {"cell_clip": 0.4}),
    "projection": (LSTM, {"projection_units": 3}),
    "candidate dropout": (LSTM, {"candidate_dropout": RATE}),
    "candidate dropout of a GRU": (GRU, {"candidate_dropout": RATE}),
    "candidate dropout of a joint GRU": (
        GRU,
        {"candidate_dropout": RATE, "norm_form": "joint_all"},
    ),
}


def fix_random_masks(layer, training):
    """Give a layer fixed random masks in training, and return the options of the oracle."""
    options, to_tensor = {}, keras.ops.convert_to_tensor
    if training and layer.cell.candidate_dropout:
        layer.cell.draw_kept = lambda *_: {"kept_candidates": to_tensor(KEPT)}
        options["candidate"] = KEPT / (1.0 - RATE)
    if getattr(layer.cell, "cell_zoneout", 0.0):
        share = CHANGES if training else 1 - layer.cell.cell_zoneout
        options["changes"] = [np.ones(TIME), np.broadcast_to(share, (TIME, BATCH, UNITS))]
        if training:
            layer.cell.draw_changes = lambda *_: [None, to_tensor(CHANGES)]
    return options


def assert_follows_the_equations(layer, mask, training):
    """Compare outputs, states and gradients of the custom gradient and of the loop."""
    options = fix_random_masks(layer, training)
    expected = kinds.oracle_gradients(layer, mask, **options)
    for compiled in (True, False):
        layer.compiled = compiled
        if not training:
            kinds.assert_follows_oracle(layer, mask, **options)
        kinds.assert_gradients_equal(layer, expected, mask, training)


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize(("kind", "options"), ALONE.values(), ids=ALONE)
def test_an_option_alone_follows_its_equation(kind, options, training):
    layer = kinds.build(kind, LAYER_NORM, seed=3, **options)
    assert_follows_the_equations(layer, UNMASKED_FIRST, training)


@pytest.mark.parametrize(
    "options",
    pairwise(
        norm=["layer", "none"],
        norm_form=["separate", "joint", "joint_all"],
        mask=list(MASKS),
        training=[True, False],
        peepholes=[True, False],
        cell_clip=[0.4, None],
        projection_units=[3, 5, None],
        candidate_dropout=[RATE, 0.0],
        cell_zoneout=[0.3, 0.0],
        use_bias=[True, False],
    ),
    ids=lambda options: ", ".join(str(value) for value in options.values()),
)
def test_every_pair_of_options_follows_the_equations(options):
    norm, mask, training = (options.pop(name) for name in ("norm", "mask", "training"))
    layer = kinds.build(LSTM, NORMS[norm], seed=3, **options)
    assert_follows_the_equations(layer, MASKS[mask], training)
