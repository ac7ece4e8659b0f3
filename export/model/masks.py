"""Which of a model's inputs the model masks, and by which value."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_norm.export.compare.input_cases import Samples
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
    told: dict[int, float] = {}
    for tensor, fill, _ in _masks(model):
        if fill is not None:
            told.setdefault(id(tensor), fill)
    found = {name: told[id(tensor)] for name, tensor in tensors.items() if id(tensor) in told}
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
        for tensor, _, layer in _masks(model)
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


def _calls(model: Any) -> Iterator[tuple[Any, Any]]:
    """Every layer of a model with every node in which it is called."""
    # `layer.input` refuses layers that are used twice; the nodes know every use.
    for layer in model.layers:
        yield from ((layer, node) for node in nodes_of(layer))


def _masks(model: Any) -> Iterator[tuple[Any, float | None, str]]:
    """Every tensor that a layer or a nested model masks.

    Yields:
        The tensor; the value that is masked in it, None where other layers change it first; and the
        name of the layer or model.
    """
    for layer, node in _calls(model):
        if isinstance(layer, keras.layers.Masking):
            yield node.input_tensors[0], layer.mask_value, layer.name
        elif isinstance(layer, keras.layers.Embedding) and layer.mask_zero:
            yield node.input_tensors[0], 0, layer.name
        elif isinstance(layer, keras.Model):
            # A subclassed model has no symbolic inputs, and shows nothing of what it does.
            places = {id(fed): k for k, fed in enumerate(getattr(layer, "inputs", None) or ())}
            for inner, fill, _ in _masks(layer) if places else ():
                for source in _sources(inner):
                    if id(source) in places:
                        given = node.input_tensors[places[id(source)]]
                        yield given, fill if source is inner else None, layer.name


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
