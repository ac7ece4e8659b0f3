"""Which of a model's inputs the model masks, and by which value."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_norm.export.cases import Samples
from keras_norm.export.signature import input_specs


def mask_fills(model: Any) -> dict[str, float]:
    """The value that marks a masked timestep, for every input that is masked.

    An input is masked when it feeds a `Masking` layer or an `Embedding` with mask_zero=True. An
    input that is itself the mask of a layer is filled with 0 (False), and so is every input that
    this layer is computed from.

    Args:
        model: a functional or Sequential model.

    Returns:
        Fill values by input name; empty where the model masks nothing.
    """
    tensors = dict(zip(input_specs(model), model.inputs, strict=True))
    fills = {name: _fill(model, tensor) for name, tensor in tensors.items()}
    found = {name: fill for name, fill in fills.items() if fill is not None}
    for name, tensor in tensors.items():
        covered = [id(source) for fed in _masked_by(model, tensor) for source in _sources(fed)]
        for other, source in tensors.items():
            if covered and (other == name or id(source) in covered):
                found.setdefault(other, 0)
    return found


def why_not_padded(fills: Mapping[str, float], samples: Samples) -> str | None:
    """Why no masked timestep can be added to the data, or None where it can.

    Args:
        fills: see `mask_fills`.
        samples: the model's data.
    """
    if not fills:
        return "no input feeds a Masking layer, an Embedding with mask_zero=True, or a layer's mask"
    static = [name for name in fills if name not in samples.timed]
    if static:
        return f"the time dimension of input {static[0]!r} is static: no step can be added"
    unmasked = [name for name in samples.timed if name not in fills]
    if unmasked:
        return f"input {unmasked[0]!r} has a time dimension that the model does not mask"
    return None


def _fill(model: Any, tensor: Any) -> float | None:
    """The value that the layers fed by an input mask, in nested models too."""
    for layer in model.layers:
        for place in _places(layer, tensor):
            fill = _fill_at(layer, place)
            if fill is not None:
                return fill
    return None


def _fill_at(layer: Any, place: int) -> float | None:
    """The value that a layer masks in what is its input at this place."""
    if isinstance(layer, keras.layers.Masking):
        return layer.mask_value
    if isinstance(layer, keras.layers.Embedding) and layer.mask_zero:
        return 0
    # A subclassed model has no symbolic inputs, and shows nothing of what it does with them.
    inputs = getattr(layer, "inputs", ()) if isinstance(layer, keras.Model) else ()
    return _fill(layer, inputs[place]) if place < len(inputs) else None


def _places(layer: Any, tensor: Any) -> Iterator[int]:
    """At which places a tensor is among a layer's inputs."""
    # `layer.input` refuses layers that are used twice; the nodes know every use.
    for node in layer._inbound_nodes:
        yield from (place for place, fed in enumerate(node.input_tensors) if fed is tensor)


def _masked_by(model: Any, tensor: Any) -> Iterator[Any]:
    """What each layer is called on whose mask is this tensor."""
    for layer in model.layers:
        for node in layer._inbound_nodes:
            if node.arguments.kwargs.get("mask") is tensor:
                yield node.input_tensors[0]


def _sources(tensor: Any) -> Iterator[Any]:
    """The inputs that a tensor of a functional model is computed from."""
    operation, index, _ = tensor._keras_history
    node = operation._inbound_nodes[index]
    if node.is_input:
        yield tensor
    for fed in node.input_tensors:
        yield from _sources(fed)
