"""Count a model's layers in series and its timesteps: both let rounding errors grow."""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export.compare.element_differences import Arrays
from keras_norm.export.signature import call, input_specs, named_function
from keras_norm.keras_internals import nodes_in_order
from keras_norm.named_layers import named_layers
from keras_norm.substitution import Function, substituted_functions

# Layers that run timesteps, and wrappers that call another layer in their own way.
RECORDED = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.TimeDistributed)
# Number of input shapes for which a model is traced. After that, a traced shape that is at least as
# large replaces a new shape.
TRACED = 16


def layers_in_series(model: Any) -> int:
    """Count the layers with weights in series: the maximum over paths from an input to an output.

    Args:
        model: a functional or Sequential model; the layers of nested models count one by one.
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
    """Return a function that counts the timesteps of a model's recurrent layers for given inputs.

    The function maps inputs to the largest number of timesteps that a recurrent layer runs. It
    returns 1 for a model without recurrent layers. A layer may run fewer timesteps than the inputs
    have, for example after a convolution or a pooling. The number comes from tracing the shapes.
    If the shapes do not determine it (after `tf.boolean_mask`), the longest input's number is used.

    Args:
        model: a functional or Sequential model; nested layers count too.
    """
    layers = [layer for _, layer in named_layers(model) if isinstance(layer, RECORDED)]
    recurrent = any(isinstance(layer, keras.layers.RNN) for layer in layers)
    known: dict[tuple[tuple[int, ...], ...], int] = {}

    def timesteps(inputs: Arrays) -> int:
        specs = input_specs(model)
        shapes = tuple((s.shape[0] or 1, *np.shape(inputs[n])[1:]) for n, s in specs.items())
        if shapes not in known:
            larger = [k for k in known if all(map(_reaches, k, shapes))]
            if len(known) >= TRACED and larger:
                return known[larger[0]]
            known[shapes] = _traced_timesteps(model, layers, shapes)
        return known[shapes]

    return timesteps if recurrent else lambda inputs: 1


def _reaches(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether a shape is at least as large as another shape along every axis."""
    return all(a >= b for a, b in zip(one, other, strict=True))


def _traced_timesteps(model: Any, layers: list[Any], shapes: tuple[tuple[int, ...], ...]) -> int:
    """Trace a model for input shapes, and return the most timesteps that a layer of `layers` runs.

    Args:
        model: a functional or Sequential model.
        layers: the model's layers of the classes in `RECORDED`.
        shapes: a shape for each input, in the order of `model.inputs`.
    """
    dynamic = {n: s.shape for n, s in input_specs(model).items() if len(s.shape) > 1}
    longest = [n for n, shape in dynamic.items() if shape[1] is None] or list(dynamic)
    sizes = dict(zip(input_specs(model), shapes, strict=True))
    specs = {
        name: dataclasses.replace(spec, shape=shape)
        for (name, spec), shape in zip(input_specs(model).items(), shapes, strict=True)
    }
    estimate = max((sizes[name][1] for name in longest), default=1)
    found: list[int | None] = []
    # A layer may raise any error for sizes that it does not support.
    try:
        with substituted_functions({layer: {"call": _recording(layer, found)} for layer in layers}):
            function = named_function(lambda inputs: call(model, inputs), specs)
            function.get_concrete_function()
    except Exception:
        return estimate
    return max((estimate if length is None else length for length in found), default=estimate)


def _recording(layer: Any, found: list[int | None]) -> Function:
    """Return a `call` for a layer that appends its number of timesteps to `found`.

    It appends None for an unknown number. Its outputs are zeros, because tracing the layer's loop
    takes long.
    """

    def call(sequences: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(layer, keras.layers.TimeDistributed):
            layer.layer.call(sequences[:, 0])  # one timestep is enough: all have equal shapes
        else:
            found.append(sequences.shape[1])
        return _zeros(layer.compute_output_shape(tuple(sequences.shape)), layer, sequences)

    return call


def _zeros(shape: Any, layer: Any, sequences: Any) -> Any:
    """Return zeros of an output shape, or a list of zeros if `shape` is a list of shapes."""
    if not all(size is None or isinstance(size, int) for size in shape):
        return [_zeros(part, layer, sequences) for part in shape]
    sizes = tf.shape(sequences)
    known = [sizes[axis] if size is None else size for axis, size in enumerate(shape)]
    return tf.ensure_shape(tf.zeros(known, layer.compute_dtype), shape)
