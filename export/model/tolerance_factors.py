"""Find the precision, depth and timesteps of a model, which determine its default tolerance.

Rounding errors grow with the number of layers on a path, and with the number of timesteps.
"""

from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_norm.export.compare.tolerance import coarsest
from keras_norm.export.signature import call, input_specs
from keras_norm.keras_internals import nodes_in_order, nodes_of
from keras_norm.named_layers import named_layers
from keras_norm.substitution import Function, substituted_functions
from keras_norm.typing import Array, Arrays, Nest, Shape, Tensor

# Classes of layers whose `call` is replaced to record the number of timesteps: RNN layers
# and wrappers of other layers.
RECORDED = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.TimeDistributed)


def model_precision(model: keras.Model, outputs: Mapping[str, Array]) -> str:
    """Return the coarsest float dtype of a Keras model: of its layers or of its outputs.

    The result is a key of `keras_norm.export.compare.tolerance.TOLERANCES`.
    """
    layers = [layer for _, layer in named_layers(model)]
    compute_dtypes = [layer.compute_dtype for layer in layers]
    # A layer with autocast=False, such as LayerNormalization, computes in the dtypes of its inputs.
    # So the dtypes of its inputs count too.
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
    """Return the largest number of layers with weights on one path from an input to an output.

    The layers of nested models count one by one.
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
    """Return a function that finds the largest number of timesteps of any recurrent layer.

    The function returns 1 for a model without recurrent layers. A layer may run fewer timesteps
    than the inputs have, for example after a convolution or a pooling. The number comes from a call
    without the recurrent layers, on the first row or on all texts. If that call fails, the number
    of timesteps of the longest input is used. The number is stored, and returned for later inputs
    of equal shapes, unless the model takes texts.

    Args:
        model: a functional or Sequential model; nested layers count too.
    """
    layers = [layer for _, layer in named_layers(model) if isinstance(layer, RECORDED)]
    if not any(isinstance(layer, keras.layers.RNN) for layer in layers):
        return lambda inputs: 1
    specs = input_specs(model)
    has_texts = any(spec.dtype == "string" for spec in specs.values())
    known: dict[tuple[Shape, ...], int] = {}

    def count(inputs: Arrays) -> int:
        shapes = tuple(np.shape(inputs[name])[1:] for name in specs)
        if has_texts or shapes not in known:
            known[shapes] = _count_timesteps(model, layers, inputs)
        return known[shapes]

    return count


def _count_timesteps(
    model: keras.Model, layers: Sequence[keras.layers.Layer], inputs: Arrays
) -> int:
    """Return the largest number of timesteps in the inputs of a model's recurrent layers.

    The recurrent layers themselves do not run.
    """
    specs, tensors = input_specs(model), {}
    is_text = any(spec.dtype == "string" for spec in specs.values())
    for name, spec in specs.items():
        rows = len(inputs[name]) if is_text else spec.shape[0] or 1
        tensors[name] = tf.constant(inputs[name][:rows], spec.dtype)
    lengths: list[int] = []
    calls = {layer: {"call": _record_timesteps(layer, lengths)} for layer in layers}
    # A layer may raise any error for a batch size or length that the layer does not support.
    try:
        with substituted_functions(calls):
            call(model, tensors)
    except Exception:
        sequences = [name for name, spec in specs.items() if len(spec.shape) > 1 and not is_text]
        dynamic = [name for name in sequences if specs[name].shape[1] is None]
        return max((inputs[name].shape[1] for name in dynamic or sequences), default=1)
    return max(lengths, default=1)


def _record_timesteps(layer: keras.layers.Layer, lengths: list[int]) -> Function:
    """Return a replacement for a layer's `call` that appends the number of timesteps to `lengths`.

    The replacement returns zeros.
    """

    def call(sequences: Tensor, *args: object, **kwargs: object) -> Nest:
        if isinstance(layer, keras.layers.TimeDistributed):
            # Run the inner layer for one timestep only: all timesteps have the same shape.
            layer.layer.call(sequences[:, 0])
        else:
            lengths.append(sequences.shape[1])
        shape = layer.compute_output_shape(tuple(sequences.shape))
        return keras.tree.map_shape_structure(lambda s: tf.zeros(s, layer.compute_dtype), shape)

    return call
