"""Find the inputs that a model masks, and the value that marks a masked timestep."""

from collections.abc import Iterator, Mapping

import keras

from keras_norm.export.compare.samples import Samples
from keras_norm.export.signature import input_specs
from keras_norm.keras_internals import Node, node_before, nodes_of
from keras_norm.typing import Tensor, Tensors


def mask_fills(model: keras.Model) -> dict[str, float]:
    """Return the value that marks a masked timestep, for every masked input.

    An input is masked if it feeds a `Masking` layer or an `Embedding` with mask_zero=True. If an
    input is the `mask` argument of a layer, its fill value is 0 (False). In that case 0 is also the
    fill value of every input from which the layer's own input is computed. Inputs without a time
    axis are left out, and inputs of texts: a layer masks the ids that it computes of the texts.

    Args:
        model: a functional or Sequential model.

    Returns:
        Fill values by input name; empty where the model masks nothing.
    """
    tensors = _sequences(model)
    fills: dict[int, float] = {}
    for tensor, fill, _ in _masks(model):
        if fill is not None:
            fills.setdefault(id(tensor), fill)
    found = {name: fills[id(tensor)] for name, tensor in tensors.items() if id(tensor) in fills}
    for name, tensor in tensors.items():
        masked = [
            id(source)
            for _, node in _calls(model)
            if node.arguments.kwargs.get("mask") is tensor
            for source in _sources(node.input_tensors[0])
        ]
        for other, source in tensors.items():
            if masked and (other == name or id(source) in masked):
                found.setdefault(other, 0)
    return found


def masked_later(model: keras.Model, fills: Mapping[str, float]) -> dict[str, str]:
    """Return the inputs that a model masks only after other layers have changed them.

    The value of such an input that marks a masked timestep is not known.

    Args:
        model: a functional or Sequential model.
        fills: see `mask_fills`.

    Returns:
        Name of the masking layer, or of the nested model with that layer, by input name.
    """
    names = {id(tensor): name for name, tensor in _sequences(model).items()}
    return {
        names[id(source)]: layer
        for tensor, _, layer in _masks(model)
        for source in _sources(tensor)
        if id(source) in names and names[id(source)] not in fills
    }


def why_not_padded(fills: Mapping[str, float], samples: Samples) -> str | None:
    """Return why masked timesteps cannot be added to the data, or None if they can be added.

    Args:
        fills: see `mask_fills`.
        samples: the model's data.
    """
    if not fills:
        return (
            "no input feeds a Masking layer, an Embedding with mask_zero=True, or the mask of a "
            "layer directly"
        )
    static = [name for name in fills if name not in samples.sequences]
    if static:
        return (
            f"the time dimension of input {static[0]!r} is static: no masked timestep can be added"
        )
    unmasked = [name for name in samples.sequences if name not in fills]
    if unmasked:
        return f"input {unmasked[0]!r} has a time dimension that the model does not mask"
    return None


def _sequences(model: keras.Model) -> dict[str, Tensor]:
    """Return the inputs of numbers with a time axis, (batch, time, ...), by name."""
    tensors = zip(input_specs(model).items(), model.inputs, strict=True)
    return {
        name: tensor
        for (name, spec), tensor in tensors
        if len(spec.shape) > 1 and spec.dtype != "string"
    }


def _calls(model: keras.Model) -> Iterator[tuple[keras.layers.Layer, Node]]:
    """Yield (layer, node) for every call of every layer in a model."""
    # Use the nodes of a layer, one for every call. `layer.input` raises an error for a layer that
    # is called twice.
    for layer in model.layers:
        yield from ((layer, node) for node in nodes_of(layer))


def _masks(model: keras.Model) -> Iterator[tuple[Tensor, float | None, str]]:
    """Yield every tensor that a layer or a nested model masks.

    Yields:
        The tensor; the value that marks its masked timesteps, or None if other layers change the
        tensor first; and the name of the layer or the nested model.
    """
    for layer, node in _calls(model):
        if isinstance(layer, keras.layers.Masking):
            yield node.input_tensors[0], layer.mask_value, layer.name
        elif isinstance(layer, keras.layers.Embedding) and layer.mask_zero:
            yield node.input_tensors[0], 0, layer.name
        elif isinstance(layer, keras.Model):
            # A subclassed model has no symbolic inputs, so its layers' calls are unknown.
            inputs = {id(t): k for k, t in enumerate(getattr(layer, "inputs", None) or ())}
            for inner, fill, _ in _masks(layer) if inputs else ():
                for source in _sources(inner):
                    if id(source) in inputs:
                        outer = node.input_tensors[inputs[id(source)]]
                        yield outer, fill if source is inner else None, layer.name


def _sources(tensor: Tensor) -> Tensors:
    """Return the model inputs from which a tensor of a functional model is computed."""
    pending, seen = [tensor], {id(tensor)}
    inputs = []
    while pending:
        tensor = pending.pop()
        node = node_before(tensor)
        if node.is_input:
            inputs.append(tensor)
        new = {id(t): t for t in node.input_tensors if id(t) not in seen}
        pending += new.values()
        seen |= new.keys()
    return inputs
