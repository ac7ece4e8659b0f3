"""Find the inputs that a model masks, and the value that marks a masked timestep."""

from collections.abc import Iterator, Mapping

import keras

from keras_norm.export.compare.samples import Samples
from keras_norm.export.signature import input_specs
from keras_norm.keras_internals import nodes_in_order
from keras_norm.typing import Tensor


def mask_fills(model: keras.Model) -> dict[str, float]:
    """Return the value that marks a masked timestep, for every input that the model masks, by name.

    An input is masked if it feeds a `Masking` layer or an `Embedding` with mask_zero=True. If an
    input is the `mask` argument of a layer, its fill value is 0 (False). In that case 0 is also the
    fill value of every input from which the layer's own input is computed. Inputs without a time
    axis and text inputs have no fill value: a layer computes ids from the texts and masks the ids.
    """
    fills: dict[int, float] = {}
    for tensor, fill, _ in _masks(model):
        if fill is not None:
            fills.setdefault(id(tensor), fill)
    tensors, sources = _sequences(model), _sources(model)
    for node in nodes_in_order(model):
        mask = node.arguments.kwargs.get("mask")
        if any(mask is tensor for tensor in tensors.values()):
            for source in (id(mask), *sources[id(node.input_tensors[0])]):
                fills.setdefault(source, 0)
    return {name: fills[id(tensor)] for name, tensor in tensors.items() if id(tensor) in fills}


def masked_later(model: keras.Model, fills: Mapping[str, float]) -> dict[str, str]:
    """Return the inputs that a model masks only after other layers have changed them.

    The value of such an input that marks a masked timestep is not known. Returns the name of the
    masking layer, or of the nested model with that layer, by input name.
    """
    sources = _sources(model)
    masks = [(sources[id(tensor)], layer) for tensor, _, layer in _masks(model)]
    return {
        name: layer
        for name, tensor in _sequences(model).items()
        for masked, layer in masks
        if name not in fills and id(tensor) in masked
    }


def why_not_padded(fills: Mapping[str, float], samples: Samples) -> str | None:
    """Return why masked timesteps cannot be added to the data, or None if they can be added.

    `fills` comes from `mask_fills`.
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


def _masks(model: keras.Model) -> Iterator[tuple[Tensor, float | None, str]]:
    """Yield each tensor that a layer or a nested model masks, its fill value, the layer's name.

    The fill value marks masked timesteps. It is None if other layers change the tensor first.
    """
    for node in nodes_in_order(model):
        layer = node.operation
        if isinstance(layer, keras.layers.Masking):
            yield node.input_tensors[0], layer.mask_value, layer.name
        elif isinstance(layer, keras.layers.Embedding) and layer.mask_zero:
            yield node.input_tensors[0], 0, layer.name
        elif isinstance(layer, keras.Model):
            # A subclassed model has no symbolic inputs, so its layers' calls are unknown.
            inputs = getattr(layer, "inputs", None) or ()
            sources = _sources(layer) if inputs else {}
            for inner, fill, _ in _masks(layer) if inputs else ():
                for outer, own in zip(node.input_tensors, inputs, strict=False):
                    if id(own) in sources[id(inner)]:
                        yield outer, fill if own is inner else None, layer.name


def _sources(model: keras.Model) -> dict[int, set[int]]:
    """Return the `id` of each model input from which a tensor is computed, by the tensor's `id`."""
    found = {id(tensor): {id(tensor)} for tensor in model.inputs}
    for node in nodes_in_order(model):
        inputs = set[int]().union(*(found[id(tensor)] for tensor in node.input_tensors))
        found |= {id(output): inputs for output in node.outputs}
    return found
