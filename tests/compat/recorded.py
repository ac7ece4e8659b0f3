"""Weights, inputs and outputs that other libraries computed; record_*.py wrote the files."""

import functools
import pathlib
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from keras_norm import compat
from tests.compat import kiros_code

DATA = pathlib.Path(__file__).parents[1] / "data"
TORCH, FLAX, SHEEPRL = (DATA / f"{name}_weights.npz" for name in ("torch", "flax", "sheeprl"))
ADDONS = DATA / "addons"
FEATURES, UNITS = 5, 4  # of the modules of PyTorch, haste and sheeprl


class Case(NamedTuple):
    """A module of another library: its weights, its inputs and its outputs."""

    weights: Any
    x: np.ndarray
    y: np.ndarray


@functools.cache
def arrays(path):
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def entries(path, prefix):
    """Return the arrays of a file whose names begin with a prefix, without the prefix."""
    found = {name: a for name, a in arrays(path).items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): a for name, a in found.items()}


def read(library, name):
    """Return a case of a library of `LOADERS`; "kiros" is NumPy code, and "dreamer" sheeprl."""
    if library == "kiros":
        return Case(*kiros_code.case(name))
    if library == "addons":
        weights, outputs = arrays(ADDONS / f"{name}.npz"), arrays(ADDONS / "outputs.npz")
        ordered = [weights[f"arr_{k}"] for k in range(len(weights))]
        return Case(ordered, outputs["inputs"], outputs[name])
    if library == "flax":
        found = entries(FLAX, f"{name}|")
        return Case(entries(FLAX, f"{name}|weights|"), found["inputs"], found["outputs"])
    path = SHEEPRL if library == "dreamer" else TORCH
    found = entries(path, f"{name}/")
    return Case(entries(path, f"{name}/state/"), found["x"], found["y"])


def nest(weights):
    """Return names such as "lstm/ii/kernel" as nested dicts, as a linen module has them."""
    nested = {}
    for name, weight in weights.items():
        *path, last = name.split("/")
        node = nested
        for part in path:
            node = node.setdefault(part, {})
        node[last] = weight
    return nested


LOADERS = {
    "torch": compat.load_torch_weights,
    "haste": compat.load_haste_weights,
    "flax": lambda layers, weights, **options: compat.load_flax_weights(
        layers, nest(weights), **options
    ),
    "addons": compat.load_addons_weights,
    "dreamer": compat.load_dreamer_weights,
    "kiros": functools.partial(compat.load_kiros_weights, prefix="encoder_"),
}


def rows(table):
    """Return the rows of each library with the library as first column, for parametrize."""
    return [
        pytest.param(
            library, *row, id=f"{library}, {row[0] if isinstance(row[0], str) else ''} {k}"
        )
        for library, of_library in table.items()
        for k, row in enumerate(of_library)
    ]


def built(layer, features=FEATURES, time=5):
    """Build a layer, or the layers of a list one after the other."""
    for each in layer if isinstance(layer, list) else [layer]:
        each.build((None, time, features))
        features = each.compute_output_shape((None, time, features))[-1]
    return layer


def check_outputs(case, layers, atol=1e-5):
    """Compare the outputs of layers, one after the other, with those of a case.

    The tolerance is relative to the largest output, if that is above 1.
    """
    y = case.x
    for layer in layers:
        y = layer(y)
    np.testing.assert_allclose(y, case.y, rtol=0, atol=atol * max(1.0, np.abs(case.y).max()))


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
