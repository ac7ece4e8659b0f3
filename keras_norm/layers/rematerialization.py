"""Run layers with moving statistics once in a training step, also under keras.RematScope."""

import warnings
from collections.abc import Callable

import keras

WARNING = (
    "keras.RematScope would run {layer_class} '{layer_name}' twice in each training step, and so "
    "update its moving statistics twice. So the layer ignores the scope and runs once. Create this "
    "layer, and all layers and models that contain it, outside the scope: a layer inside the scope "
    "would run its inner layers twice too."
)


def run_once(
    layer: keras.layers.Layer, call: Callable[..., object], rematerialized: Callable[..., object]
) -> Callable[..., object]:
    """Return the call of a layer without rematerialization; warn if a RematScope is active.

    Args:
        layer: a layer with moving statistics.
        call: the call of the layer.
        rematerialized: the call that Keras would run: `call` itself outside keras.RematScope.
    """
    if rematerialized is not call:
        names = {"layer_class": type(layer).__name__, "layer_name": layer.name}
        warnings.warn(WARNING.format(**names), stacklevel=2)
    return call
