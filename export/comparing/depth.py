"""How far values travel through a model: the layers in a row, and the timesteps."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_norm.export.comparing.elements import Arrays
from keras_norm.keras_internals import nodes_in_order
from keras_norm.walk import named_layers


def layers_in_series(model: Any) -> int:
    """The largest number of layers with weights on any way from an input to an output.

    Args:
        model: a functional or Sequential model; nested ones count as what they hold.
    """
    depths: dict[int, int] = {}
    for node in nodes_in_order(model):
        before = max((depths.get(id(fed), 0) for fed in node.input_tensors), default=0)
        depth = before + _own_depth(node.operation)
        depths.update((id(tensor), depth) for tensor in node.outputs)
    return max(depths.get(id(tensor), 0) for tensor in model.outputs)


def _own_depth(operation: Any) -> int:
    if isinstance(operation, keras.Model) and getattr(operation, "outputs", None):
        return layers_in_series(operation)
    return int(bool(getattr(operation, "weights", ())))


def timesteps_run(model: Any, cases: Iterable[Arrays]) -> int:
    """The most timesteps that a recurrent layer runs; 1 where no layer is recurrent.

    Args:
        model: a functional or Sequential model; layers count however nested.
        cases: the inputs of each call, by name.
    """
    if not any(isinstance(layer, keras.layers.RNN) for _, layer in named_layers(model)):
        return 1
    return max(map(longest, cases))


def longest(inputs: Arrays) -> int:
    """The longest second axis of any input: time, where an input has one."""
    return max((array.shape[1] for array in inputs.values() if array.ndim > 1), default=1)
