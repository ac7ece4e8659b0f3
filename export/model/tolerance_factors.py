"""Find the precision, depth and timesteps of a model, which determine its default tolerance.

Rounding errors grow with the number of layers on a path, and with the number of timesteps.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.signature import call, input_specs, named_function
from keras_norm.keras_internals import nodes_in_order, nodes_of
from keras_norm.named_layers import named_layers
from keras_norm.substitution import Function, substituted_functions
from keras_norm.typing import Array, Arrays, Nest, Shape, Tensor

# Classes of layers whose `call` is replaced to record the number of timesteps: recurrent layers,
# and wrappers that call another layer.
RECORDED = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.TimeDistributed)
# Number of input shapes for which a model is traced. A further shape gets the number of timesteps
# of a traced shape that is at least as large, because tracing takes long.
TRACED = 16


def model_precision(model: keras.Model, outputs: Mapping[str, Array]) -> str:
    """Return the coarsest dtype among a Keras model's compute dtypes and its outputs' dtypes.

    Args:
        model: a built Keras model.
        outputs: the model's outputs, by name.

    Returns:
        A key of `keras_norm.export.compare.tolerance.TOLERANCES`.
    """
    layers = [layer for _, layer in named_layers(model)]
    compute_dtypes = [layer.compute_dtype for layer in layers]
    # A layer with autocast=False, such as LayerNormalization, does not cast its inputs. It computes
    # in the dtypes of the inputs, so these dtypes count as its precision.
    inputs = [
        tensor.dtype
        for layer in layers
        if not layer.autocast
        for node in nodes_of(layer)
        for tensor in node.input_tensors
    ]
    names = [*compute_dtypes, *inputs, *(array.dtype.name for array in outputs.values())]
    # Ignore integer dtypes. Ids and classes may have the dtype int8, but the precision "int8" means
    # quantized weights.
    return coarsest(name for name in names if "float" in name)


def layer_depth(model: keras.Model) -> int:
    """Return the largest number of layers with weights on a path from an input to an output.

    Args:
        model: a functional or Sequential model; the layers of nested models count one by one.
    """
    depths: dict[int, int] = {}
    for node in nodes_in_order(model):
        before = max((depths.get(id(tensor), 0) for tensor in node.input_tensors), default=0)
        depth = before + _own_depth(node.operation)
        depths.update((id(tensor), depth) for tensor in node.outputs)
    return max(depths.get(id(tensor), 0) for tensor in model.outputs)


def _own_depth(operation: keras.Operation) -> int:
    if isinstance(operation, keras.Model) and getattr(operation, "outputs", None):
        return layer_depth(operation)
    return int(bool(getattr(operation, "weights", ())))


def timestep_counter(model: keras.Model) -> Callable[[Arrays], int]:
    """Return a function from inputs to the largest number of timesteps of any recurrent layer.

    The function returns 1 for a model without recurrent layers. A layer may run fewer timesteps
    than the inputs have, for example after a convolution or a pooling. The number comes from
    tracing the shapes. If the shapes do not determine it (after `tf.boolean_mask`), the longest
    input's number is used. For a model with an input of texts, the number comes from a call without
    recurrent layers.

    Args:
        model: a functional or Sequential model; nested layers count too.
    """
    layers = [layer for _, layer in named_layers(model) if isinstance(layer, RECORDED)]
    is_recurrent = any(isinstance(layer, keras.layers.RNN) for layer in layers)
    known: dict[tuple[tuple[int, ...], ...], int] = {}

    def count(inputs: Arrays) -> int:
        specs = input_specs(model)
        if any(spec.dtype == "string" for spec in specs.values()):
            tensors = {name: tf.constant(inputs[name], spec.dtype) for name, spec in specs.items()}
            return _run_layers(lambda: call(model, tensors), layers, estimate=1)
        shapes = tuple((s.shape[0] or 1, *np.shape(inputs[n])[1:]) for n, s in specs.items())
        if shapes not in known:
            larger = [other for other in known if all(map(_is_as_large, other, shapes))]
            if len(known) >= TRACED and larger:
                return known[larger[0]]
            known[shapes] = _trace_timesteps(model, layers, shapes)
        return known[shapes]

    return count if is_recurrent else lambda inputs: 1


def _is_as_large(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether a shape is at least as large as another shape along every axis."""
    return all(a >= b for a, b in zip(one, other, strict=True))


def _trace_timesteps(
    model: keras.Model,
    layers: Sequence[keras.layers.Layer],
    shapes: tuple[tuple[int, ...], ...],
) -> int:
    """Trace a model, and return the largest number of timesteps that a recurrent layer runs.

    Args:
        model: a functional or Sequential model.
        layers: the model's layers of the classes in `RECORDED`.
        shapes: a shape for each input, in the order of `model.inputs`.
    """
    sequences = {n: s.shape for n, s in input_specs(model).items() if len(s.shape) > 1}
    dynamic = [n for n, shape in sequences.items() if shape[1] is None] or list(sequences)
    sizes = dict(zip(input_specs(model), shapes, strict=True))
    specs = {
        name: dataclasses.replace(spec, shape=sizes[name])
        for name, spec in input_specs(model).items()
    }
    estimate = max((sizes[name][1] for name in dynamic), default=1)
    function = named_function(lambda inputs: call(model, inputs), specs)
    return _run_layers(function.get_concrete_function, layers, estimate)


def _run_layers(
    run: Callable[[], object], layers: Sequence[keras.layers.Layer], estimate: int
) -> int:
    """Run or trace a model, and return the largest number of timesteps of a recurrent layer.

    Args:
        run: function that runs or traces the model.
        layers: the model's layers of the classes in `RECORDED`.
        estimate: the number of timesteps where the shapes do not determine it.
    """
    lengths: list[int | None] = []
    # A layer may raise any error for sizes that it does not support.
    try:
        calls = {layer: {"call": _record_timesteps(layer, lengths)} for layer in layers}
        with substituted_functions(calls):
            run()
    except Exception:
        return estimate
    return max((estimate if length is None else length for length in lengths), default=estimate)


def _record_timesteps(layer: keras.layers.Layer, lengths: list[int | None]) -> Function:
    """Return a replacement for a layer's `call` that records the number of timesteps.

    The replacement appends the number to `lengths`, or None for an unknown number of timesteps. It
    returns zeros, because tracing the layer's loop takes long.
    """

    def call(sequences: Tensor, *args: object, **kwargs: object) -> Nest:
        if isinstance(layer, keras.layers.TimeDistributed):
            # All timesteps have the same shape, so it is enough to trace one timestep.
            layer.layer.call(sequences[:, 0])
        else:
            lengths.append(sequences.shape[1])
        return _zeros(layer.compute_output_shape(tuple(sequences.shape)), layer, sequences)

    return call


def _zeros(shape: Shape | Sequence[Shape], layer: keras.layers.Layer, sequences: Tensor) -> Nest:
    """Return zeros of a layer's output shape; a list of zeros if `shape` is a list of shapes."""
    sizes = tf.shape(sequences)
    static: list[int | Tensor] = []
    for axis, size in enumerate(shape):
        if isinstance(size, list | tuple):
            return [_zeros(part, layer, sequences) for part in shape if isinstance(part, tuple)]
        static.append(sizes[axis] if size is None else size)
    return tf.ensure_shape(tf.zeros(static, layer.compute_dtype), shape)
