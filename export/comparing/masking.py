"""Which of a model's inputs the model masks, and by which value."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_norm.export.comparing.cases import Samples
from keras_norm.export.signature import input_specs
from keras_norm.keras_internals import node_before, nodes_of


def mask_fills(model: Any) -> dict[str, float]:
    """The value that marks a masked timestep, for every input that is masked.

    An input is masked when it feeds a `Masking` layer or an `Embedding` with mask_zero=True. An
    input that is itself the mask of a layer is filled with 0 (False), and so is every input that
    this layer is computed from. One without an axis of time has no timestep to mask.

    Args:
        model: a functional or Sequential model.

    Returns:
        Fill values by input name; empty where the model masks nothing.
    """
    tensors = _sequences(model)
    fills = {name: _fill(model, tensor) for name, tensor in tensors.items()}
    found = {name: fill for name, fill in fills.items() if fill is not None}
    for name, tensor in tensors.items():
        covered = [
            id(source)
            for _, node in _calls(model)
            if node.arguments.kwargs.get("mask") is tensor
            for source in _sources(node.input_tensors[0])
        ]
        for other, source in tensors.items():
            if covered and (other == name or id(source) in covered):
                found.setdefault(other, 0)
    return found


def masked_later(model: Any, fills: Mapping[str, float]) -> dict[str, str]:
    """The inputs that are masked after other layers changed them.

    Which value of such an input marks a masked timestep is not known.

    Args:
        model: a functional or Sequential model.
        fills: see `mask_fills`.

    Returns:
        Name of the layer that masks, or of the nested model, by input name.
    """
    names = {id(tensor): name for name, tensor in _sequences(model).items()}
    return {
        names[id(source)]: layer
        for layer, tensor in _masked(model)
        for source in _sources(tensor)
        if id(source) in names and names[id(source)] not in fills
    }


def why_not_padded(fills: Mapping[str, float], samples: Samples) -> str | None:
    """Why no masked timestep can be added to the data, or None where it can.

    Args:
        fills: see `mask_fills`.
        samples: the model's data.
    """
    if not fills:
        makers = "a Masking layer, an Embedding with mask_zero=True, or a layer's mask"
        return f"no input goes straight into {makers}"
    static = [name for name in fills if name not in samples.timed]
    if static:
        return f"the time dimension of input {static[0]!r} is static: no step can be added"
    unmasked = [name for name in samples.timed if name not in fills]
    if unmasked:
        return f"input {unmasked[0]!r} has a time dimension that the model does not mask"
    return None


def _sequences(model: Any) -> dict[str, Any]:
    """The inputs (batch, time, ...) by name."""
    tensors = zip(input_specs(model), model.inputs, strict=True)
    return {name: tensor for name, tensor in tensors if len(tensor.shape) > 1}


def _fill(model: Any, tensor: Any) -> float | None:
    """The value that the layers fed by an input mask, in nested models too."""
    for layer, node in _calls(model):
        for place, fed in enumerate(node.input_tensors):
            if fed is tensor and (fill := _fill_at(layer, place)) is not None:
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


def _calls(model: Any) -> Iterator[tuple[Any, Any]]:
    """Every layer of a model with every node in which it is called."""
    # `layer.input` refuses layers that are used twice; the nodes know every use.
    for layer in model.layers:
        yield from ((layer, node) for node in nodes_of(layer))


def _masked(model: Any) -> Iterator[tuple[str, Any]]:
    """Every tensor that a layer or a nested model masks, with its name."""
    for layer, node in _calls(model):
        yield from ((layer.name, node.input_tensors[place]) for place in _masked_places(layer))


def _masked_places(layer: Any) -> list[int]:
    """Which of a layer's inputs are masked in it, now or later."""
    if not isinstance(layer, keras.Model):
        return [] if _fill_at(layer, 0) is None else [0]
    masked = {id(source) for _, tensor in _masked(layer) for source in _sources(tensor)}
    return [place for place, fed in enumerate(getattr(layer, "inputs", ())) if id(fed) in masked]


def _sources(tensor: Any) -> list[Any]:
    """The inputs that a tensor of a functional model is computed from."""
    pending, seen = [tensor], {id(tensor): tensor}
    found = []
    while pending:
        node = node_before(now := pending.pop())
        if node.is_input:
            found.append(now)
        new = {id(fed): fed for fed in node.input_tensors if id(fed) not in seen}
        pending += new.values()
        seen |= new
    return found
