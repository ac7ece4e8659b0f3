"""Which of a model's inputs the model masks, and by which value."""

from typing import Any

import keras

from keras_norm.export.cases import Samples
from keras_norm.export.signature import input_specs


def mask_fills(model: Any, samples: Samples) -> dict[str, float] | str:
    """The value that marks a padded timestep, where every input with open time has one.

    An input is masked when it feeds a `Masking` layer or an `Embedding` with mask_zero=True.

    Args:
        model: a functional or Sequential model.
        samples: the model's data.

    Returns:
        Mask values by input name; or, where padding cannot be tested, the reason.
    """
    fills = mask_values(model)
    if not fills:
        return "no input feeds a Masking layer or an Embedding with mask_zero=True"
    static = [name for name in fills if name not in samples.timed]
    if static:
        return f"the time dimension of input {static[0]!r} is static: no step can be appended"
    unmasked = [name for name in samples.timed if name not in fills]
    if unmasked:
        return f"input {unmasked[0]!r} has a time dimension that the model does not mask"
    return fills


def mask_values(model: Any) -> dict[str, float]:
    """The value that marks a padded timestep, for every input that the model masks.

    Args:
        model: a functional or Sequential model.
    """
    named = zip(input_specs(model), model.inputs, strict=True)
    fills = {name: _fill(model, tensor) for name, tensor in named}
    return {name: fill for name, fill in fills.items() if fill is not None}


def _fill(model: Any, tensor: Any) -> float | None:
    """The value that the layers fed by an input mask, in nested models too."""
    for layer in model.layers:
        if not _is_fed_by(layer, tensor):
            continue
        if isinstance(layer, keras.layers.Masking):
            return layer.mask_value
        if isinstance(layer, keras.layers.Embedding) and layer.mask_zero:
            return 0
        if isinstance(layer, keras.Model) and len(layer.inputs) == 1:
            return _fill(layer, layer.inputs[0])
    return None


def _is_fed_by(layer: Any, tensor: Any) -> bool:
    # `layer.input` refuses layers that are used twice; the nodes know every use.
    return any(fed is tensor for node in layer._inbound_nodes for fed in node.input_tensors)
