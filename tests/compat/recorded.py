"""Read state dicts, inputs and outputs that the real libraries computed; see record_torch.py."""

import functools
import pathlib
from typing import NamedTuple

import numpy as np

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
