"""How far values travel through a model: the layers in a row, and the timesteps."""

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
from keras_norm.substitution import Method, substituted_methods

# The layers that run timesteps, and those that call another layer by a way of their own.
RECORDED = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.TimeDistributed)
# Shapes for which a model is traced, before a longer one that is known serves for a shorter.
TRACED = 16


def layers_in_series(model: Any) -> int:
    """The largest number of layers with weights on any way from an input to an output.

    Args:
        model: a functional or Sequential model; nested ones count as what they hold.
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
    """The most timesteps that a recurrent layer runs, from inputs; 1 where no layer is recurrent.

    A convolution or a pooling before the layer leaves it fewer timesteps than the inputs have. They
    are found from the shapes alone. Where shapes do not tell, as after `tf.boolean_mask`, they are
    those of the longest input.

    Args:
        model: a functional or Sequential model; layers count however nested.
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
    """Whether no axis is shorter than that of another shape."""
    return all(a >= b for a, b in zip(one, other, strict=True))


def _traced_timesteps(model: Any, layers: list[Any], shapes: tuple[tuple[int, ...], ...]) -> int:
    """The most timesteps of these layers for inputs of these shapes."""
    dynamic = {n: s.shape for n, s in input_specs(model).items() if len(s.shape) > 1}
    longest = [n for n, shape in dynamic.items() if shape[1] is None] or list(dynamic)
    sizes = dict(zip(input_specs(model), shapes, strict=True))
    specs = {
        name: dataclasses.replace(spec, shape=shape)
        for (name, spec), shape in zip(input_specs(model).items(), shapes, strict=True)
    }
    estimate = max((sizes[name][1] for name in longest), default=1)
    found: list[int | None] = []
    # Whatever a layer raises at sizes that it does not take.
    try:
        with substituted_methods({layer: {"call": _recording(layer, found)} for layer in layers}):
            function = named_function(lambda inputs: call(model, inputs), specs)
            function.get_concrete_function()
    except Exception:
        return estimate
    return max((estimate if length is None else length for length in found), default=estimate)


def _recording(layer: Any, found: list[int | None]) -> Method:
    """A call of a layer that adds its number of timesteps to `found`, None if it is not known.

    The outputs are zeros, as a loop takes long to trace.
    """

    def call(sequences: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(layer, keras.layers.TimeDistributed):
            layer.layer.call(sequences[:, 0])  # the same for every timestep
        else:
            found.append(sequences.shape[1])
        return _zeros(layer.compute_output_shape(tuple(sequences.shape)), layer, sequences)

    return call


def _zeros(shape: Any, layer: Any, sequences: Any) -> Any:
    """Zeros in the shape of a layer's output, or a list of them for several."""
    if not all(size is None or isinstance(size, int) for size in shape):
        return [_zeros(part, layer, sequences) for part in shape]
    sizes = tf.shape(sequences)
    known = [sizes[axis] if size is None else size for axis, size in enumerate(shape)]
    return tf.ensure_shape(tf.zeros(known, layer.compute_dtype), shape)
