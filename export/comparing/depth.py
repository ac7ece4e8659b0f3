"""How far values travel through a model: the layers in a row, and the timesteps."""

from collections.abc import Callable, Iterator
from typing import Any

import keras

from keras_norm.export.comparing.elements import Arrays
from keras_norm.export.signature import input_specs
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


def timesteps_of(model: Any) -> Callable[[Arrays], int]:
    """The most timesteps that a recurrent layer runs, from inputs; 1 where no layer is recurrent.

    Where the model leaves them open, they are those of the longest input whose second axis it
    leaves open too, or has at all, if there is none.

    Args:
        model: a functional or Sequential model; layers count however nested.
    """
    lengths = set(_lengths(model))
    fixed = max((length for length in lengths if length is not None), default=1)
    names: list[str] = []
    if None in lengths:
        wide = {name: spec.shape[1] for name, spec in input_specs(model).items() if spec.shape[1:]}
        names = [name for name, length in wide.items() if length is None] or list(wide)
    return lambda inputs: max([fixed, *(inputs[name].shape[1] for name in names)])


def _lengths(model: Any) -> Iterator[int | None]:
    """The timesteps of each recurrent layer, None where the model does not tell."""
    for node in nodes_in_order(model):
        layer = node.operation
        if isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional):
            yield node.input_tensors[0].shape[1]
        elif isinstance(layer, keras.Model) and getattr(layer, "outputs", None):
            yield from _lengths(layer)
        elif isinstance(layer, keras.Layer) and any(
            isinstance(inner, keras.layers.RNN) for _, inner in named_layers(layer)
        ):
            yield None
