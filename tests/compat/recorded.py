"""Read state dicts, inputs and outputs that the real libraries computed; see record_torch.py."""

import functools
import pathlib
from typing import NamedTuple

import keras
import numpy as np
import pytest

PATH = pathlib.Path(__file__).parents[1] / "data" / "torch_weights.npz"
FEATURES, UNITS = 5, 4


class Case(NamedTuple):
    """A module of another library: its state dict, its inputs and its outputs."""

    state_dict: dict
    x: np.ndarray
    y: np.ndarray


@functools.cache
def arrays():
    with np.load(PATH, allow_pickle=False) as file:
        return dict(file)


def entries(prefix):
    """Return the arrays whose names begin with "prefix/", without it."""
    found = {k: a for k, a in arrays().items() if k.startswith(f"{prefix}/")}
    return {k.removeprefix(f"{prefix}/"): a for k, a in found.items()}


def read(case):
    """Return a case by its name."""
    found = entries(case)
    return Case(entries(f"{case}/state"), found["x"], found["y"])


def refusal(load, layers, *weights, error=ValueError, **options):
    """Load weights that do not fit; return the message, of one line. No layer may change.

    Args:
        load: function such as `load_torch_weights`.
        layers: a layer, a list or a dict of layers.
        *weights: the weights, and other arguments of the function by position.
        error: class of the error.
        **options: arguments of the function by name.
    """
    targets = [layer for layer in keras.tree.flatten(layers) if hasattr(layer, "get_weights")]
    before = [layer.get_weights() for layer in targets]
    with pytest.raises(error) as refused:
        load(layers, *weights, **options)
    for layer, values in zip(targets, before, strict=True):
        for old, new in zip(values, layer.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)
    assert "\n" not in str(refused.value)
    return str(refused.value)


class CustomCell(keras.layers.LSTMCell):
    """A user's cell."""
