"""Sides on which layers take padding, as in the table of docs/guides/masks.md."""

import keras
import numpy as np
import pytest

import keras_norm
from tests.rnn import kinds
from tests.rnn.kinds import FEATURES, GRU, LSTM, SIMPLE_RNN, TIME, UNITS

PADDING = 3
SIDES = {"right": (0, PADDING), "left": (PADDING, 0)}
NORMS = {
    "none": None,
    "layer": keras_norm.LayerNormalization(),
    "one row": keras_norm.TimestepBatchNormalization(1),
}
PER_TIMESTEP = keras_norm.TimestepBatchNormalization(TIME + PADDING)


def forward(kind, norm):
    return kind.layer(UNITS, norm=norm, dtype="float64")


def backward(kind, norm):
    return kind.layer(UNITS, norm=norm, dtype="float64", go_backwards=True)


def bidirectional(kind, norm):
    return keras.layers.Bidirectional(forward(kind, norm), dtype="float64")


def sides_that_change_nothing(layer):
    """Return the sides on which masked padding does not change the last output."""
    kinds.built(layer)
    kinds.randomize_statistics(layer)
    x = kinds.draw(2, TIME, FEATURES)
    mask, expected = np.ones((2, TIME), bool), layer(kinds.cast(x))
    found = set()
    for side, width in SIDES.items():
        padded = np.pad(x, ((0, 0), width, (0, 0)), constant_values=9.0)
        y = layer(kinds.cast(padded), mask=np.pad(mask, ((0, 0), width)))
        if np.allclose(y, expected, rtol=0, atol=1e-12):
            found.add(side)
    return found


@pytest.mark.parametrize(
    ("make", "kind", "norm"),
    [
        (forward, LSTM, "none"),
        (forward, SIMPLE_RNN, "one row"),
        (backward, GRU, "layer"),
        (bidirectional, SIMPLE_RNN, "one row"),
    ],
)
def test_without_timestep_statistics_padding_does_not_change_the_output(make, kind, norm):
    assert sides_that_change_nothing(make(kind, NORMS[norm])) == {"right", "left"}


@pytest.mark.parametrize(
    ("make", "kind", "sides"),
    [
        (forward, LSTM, {"right"}),
        (backward, GRU, {"left"}),
        (bidirectional, SIMPLE_RNN, set()),
    ],
)
def test_with_timestep_statistics_padding_must_come_last_in_the_loop(make, kind, sides):
    assert sides_that_change_nothing(make(kind, PER_TIMESTEP)) == sides
