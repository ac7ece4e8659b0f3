"""Find the coarsest precision in which a model computes.

The precision is a key of `keras_norm.export.compare.tolerance.TOLERANCES`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.keras_internals import nodes_of
from keras_norm.named_layers import named_layers


def model_precision(model: Any, outputs: Mapping[str, np.ndarray]) -> str:
    """Return the coarsest dtype among a Keras model's compute dtypes and its outputs' dtypes.

    Args:
        model: a built Keras model.
        outputs: the model's outputs, by name.
    """
    layers = [layer for _, layer in named_layers(model)]
    computed = (layer.compute_dtype for layer in layers)
    received = (dtype for layer in layers for dtype in _computed_as_received(layer))
    given = (value.dtype.name for value in outputs.values())
    # Skips integers: "int8" would mean quantized weights, but ids and classes may be int8 too.
    return coarsest(name for name in (*computed, *received, *given) if "float" in name)


def _computed_as_received(layer: Any) -> list[str]:
    """Return the input dtypes of a layer that does not cast its inputs (LayerNormalization)."""
    if layer.autocast:
        return []
    return [tensor.dtype for node in nodes_of(layer) for tensor in node.input_tensors]
