"""The coarsest number format that values pass through.

It is a key of `keras_norm.export.compare.tolerance.TOLERANCES`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.keras_internals import nodes_of
from keras_norm.named_layers import named_layers


def model_precision(model: Any, outputs: Mapping[str, np.ndarray]) -> str:
    """Coarsest compute dtype of a Keras model's layers and of its outputs.

    Args:
        model: a built Keras model.
        outputs: its outputs, by name.
    """
    layers = [layer for _, layer in named_layers(model)]
    computed = (layer.compute_dtype for layer in layers)
    received = (dtype for layer in layers for dtype in _computed_as_received(layer))
    given = (value.dtype.name for value in outputs.values())
    # Ids and classes of 8 bits are no quantized weights.
    return coarsest(name for name in (*computed, *received, *given) if "float" in name)


def _computed_as_received(layer: Any) -> list[str]:
    """The dtypes of what a layer is given and does not cast, as Keras' LayerNormalization."""
    if layer.autocast:
        return []
    return [tensor.dtype for node in nodes_of(layer) for tensor in node.input_tensors]
